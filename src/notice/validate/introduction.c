#include "notice/validate/introduction.h"
#include "base/build_id.h"
#include "base/file.h"
#include "base/memory.h"
#include "notice/gpu/state.h"
#include "notice/store/seal.h"
#include "notice/validate/evidence.h"
#include "notice/validate/gpu_shares.h"
#include "notice/validate/waves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- introductions ---- */

static void say_host(sl_introduction *words) {
    struct stat space;
    gethostname(words->host, sizeof words->host - 1);
    if (stat("/proc/self/ns/net", &space) == 0)
        snprintf(words->space, sizeof words->space, "%llu", (unsigned long long)space.st_ino);
    if (stat("/proc/self/ns/pid", &space) == 0)
        snprintf(words->numbers, sizeof words->numbers, "%llu", (unsigned long long)space.st_ino);
    char *text;
    size_t length;
    if (sl_file_read("/proc/sys/kernel/random/boot_id", &text, &length) == SL_OK) {
        snprintf(words->machine, sizeof words->machine, "%.36s", text);
        sl_free(text);
    }
}

/* Those of the rank, or all of the node where there is no rank yet. */
static uint64_t list_gpus(int pid) {
    int index[SL_GPUS_MAX], count = 0;
    uint64_t gpus = 0;
    if (pid > 0)
        count = sl_gpu_of_process(pid, index, SL_GPUS_MAX);
    else if (sl_gpu_count(&count) != SL_OK)
        return 0;
    for (int i = 0; i < count && i < SL_GPUS_MAX; i++)
        gpus |= UINT64_C(1) << (pid > 0 ? index[i] : i);
    return gpus;
}

sl_status sl_introduce(const sl_validate_request *request, int rank, const sl_wire_address *address,
                       void **bytes, size_t *size) {
    sl_introduction words = {.version = SL_INTRODUCTION_VERSION,
                             .rank = rank,
                             .pid = request->pid,
                             .own_pid = (int32_t)getpid(),
                             .threads = request->devices ? request->threads : 0,
                             .gemm = request->gemm,
                             .wires = request->wires,
                             .topology = (int32_t)request->topology,
                             .gpus = request->devices ? list_gpus(request->pid) : 0,
                             .address = *address};
    snprintf(words.build, sizeof words.build, "%s", sl_build_id());
    sl_member_pair *pair = NULL;
    if (request->wires && request->links)
        SL_TRY(sl_links_read(request->links, &pair, &words.links));
    say_host(&words);
    sl_own_cores(&words.cores);
    if (getrandom(&words.token, sizeof words.token, 0) != (ssize_t)sizeof words.token)
        words.token = (uint64_t)getpid(); /* sent to all, never guessed: it only has to exclude strays */
    *size = sizeof words + (size_t)words.links * 2 * sizeof(int32_t);
    sl_status status = sl_alloc(bytes, *size, 1);
    if (status == SL_OK)
        memcpy(*bytes, &words, sizeof words);
    for (int i = 0; status == SL_OK && i < words.links; i++) {
        int32_t ends[2] = {pair[i].a, pair[i].b};
        memcpy((char *)*bytes + sizeof words + (size_t)i * sizeof ends, ends, sizeof ends);
    }
    sl_free(pair);
    return status;
}

/* ---- derived data ---- */

void sl_membership_free(sl_membership *membership) {
    SL_FREE(membership->of, membership->host, membership->machine, membership->wave, membership->gpus);
    sl_passes_free(&membership->links);
    *membership = (sl_membership){0};
}

static sl_status refuse_version(const sl_introduction *of, int member) {
    char text[320];
    sl_seal_version_text(of->build, of->host, text, sizeof text);
    return sl_error(SL_EPEER, "validating process %d is of another version: %s", member, text);
}

static sl_status take_words(const sl_allgather_parts *words, sl_membership *c) {
    for (int i = 0; i < c->members; i++) {
        if (!words->part[i])
            continue;
        sl_introduction *of = &c->of[i];
        memcpy(of, words->part[i], words->size[i] < sizeof *of ? words->size[i] : sizeof *of);
        of->build[sizeof of->build - 1] = of->host[sizeof of->host - 1] = 0;
        if (of->version != SL_INTRODUCTION_VERSION || strcmp(of->build, sl_build_id()) != 0)
            return refuse_version(of, i);
        if (of->links < 0 || words->size[i] != sizeof *of + (size_t)of->links * 2 * sizeof(int32_t))
            return sl_error(SL_EPEER, "validating process %d sent an invalid introduction", i);
        of->space[sizeof of->space - 1] = 0;
        of->machine[sizeof of->machine - 1] = of->numbers[sizeof of->numbers - 1] = 0;
        if (!c->token)
            c->token = of->token;
    }
    return SL_OK;
}

/* Several machines if hosts name different ones; a host that names none is its own. */
static void name_machines(sl_membership *c) {
    for (int i = 0; i < c->members; i++) {
        c->machine[i] = c->host[i];
        for (int j = 0; c->of[i].version && c->of[i].machine[0] && j < i; j++)
            if (c->of[j].version && strcmp(c->of[i].machine, c->of[j].machine) == 0) {
                c->machine[i] = c->machine[j];
                break;
            }
    }
}

static void name_hosts(sl_membership *c) {
    for (int i = 0; i < c->members; i++) {
        c->host[i] = -1;
        for (int j = 0; c->of[i].version && j < i && c->host[i] < 0; j++)
            if (c->of[j].version && strcmp(c->of[i].host, c->of[j].host) == 0 &&
                strcmp(c->of[i].space, c->of[j].space) == 0)
                c->host[i] = c->host[j];
        if (c->of[i].version && c->host[i] < 0)
            c->host[i] = c->hosts++;
    }
}

/* Fewer than three suspects would have no comparison: then all devices are tested. */
enum { COMPARABLE = 3 };

static sl_status make_waves(sl_membership *c) {
    sl_wave_member *all;
    int suspects = 0;
    for (int i = 0; i < c->members; i++)
        suspects += c->of[i].version && c->of[i].gemm;
    SL_TRY(sl_alloc(&all, (size_t)c->members, sizeof *all));
    for (int i = 0; i < c->members; i++) {
        int tested = c->of[i].version && (c->of[i].gemm || (suspects > 0 && suspects < COMPARABLE));
        all[i] = (sl_wave_member){c->machine[i], tested ? c->of[i].threads : 0, c->of[i].cores};
    }
    sl_status status = sl_waves(all, c->members, c->wave, &c->waves);
    sl_free(all);
    return status;
}

/* Of members whose device is tested. */
static sl_status share_gpus(sl_membership *c) {
    uint64_t *claimed;
    SL_TRY(sl_alloc(&claimed, (size_t)c->members, sizeof *claimed));
    for (int i = 0; i < c->members; i++)
        claimed[i] = c->of[i].version && c->wave[i] >= 0 ? c->of[i].gpus : 0;
    sl_gpu_shares(claimed, c->machine, c->members, c->gpus);
    sl_free(claimed);
    return SL_OK;
}

static int member_of(const sl_membership *c, int rank) {
    for (int i = 0; i < c->members; i++)
        if (c->of[i].version && c->of[i].rank == rank)
            return i;
    return -1;
}

/* All lists together, as far as their ranks are present; 0: there are none. */
static sl_status given_links(const sl_allgather_parts *words, sl_membership *c, int *given) {
    sl_member_pair *pair = NULL;
    size_t room = 0;
    int count = 0;
    sl_status status = SL_OK;
    *given = 0;
    for (int i = 0; i < c->members; i++)
        for (int k = 0; c->of[i].version && k < c->of[i].links; k++) {
            int32_t ends[2];
            memcpy(ends, (char *)words->part[i] + sizeof *c->of + (size_t)k * sizeof ends, sizeof ends);
            int a = member_of(c, ends[0]), b = member_of(c, ends[1]);
            *given = 1;
            if (a < 0 || b < 0 || a == b)
                continue;
            SL_TRY_GOTO(done, status, sl_grow(&pair, &room, (size_t)count + 1, sizeof *pair));
            pair[count++] = (sl_member_pair){a, b, 0};
        }
    if (*given)
        status = sl_passes_given(c->members, pair, count, &c->links);
done:
    sl_free(pair);
    return status;
}

typedef struct chair {
    int rank, member;
} chair;

static int by_rank(const void *left, const void *right) {
    const chair *l = left, *r = right;
    return l->rank != r->rank ? (l->rank > r->rank) - (l->rank < r->rank)
                              : (l->member > r->member) - (l->member < r->member);
}

/* The topology over those that test links, in the order of their ranks. */
static sl_status shaped_links(sl_membership *c) {
    chair *chairs;
    int count = 0, topology = SL_TOPOLOGY_RING;
    SL_TRY(sl_alloc(&chairs, (size_t)c->members, sizeof *chairs));
    for (int i = c->members - 1; i >= 0; i--)
        if (c->of[i].version && c->of[i].wires) {
            chairs[count++] = (chair){c->of[i].rank, i};
            topology = c->of[i].topology;
        }
    if (count > 1)
        qsort(chairs, (size_t)count, sizeof *chairs, by_rank);
    sl_status status = topology == SL_TOPOLOGY_TREE  ? sl_passes_tree(count, &c->links)
                       : topology == SL_TOPOLOGY_ALL ? sl_passes_all(count, &c->links)
                                                     : sl_passes_ring(count, &c->links);
    for (int i = 0; status == SL_OK && i < c->links.count; i++) {
        sl_member_pair *p = &c->links.pair[i];
        int a = chairs[p->a].member, b = chairs[p->b].member;
        p->a = a < b ? a : b;
        p->b = a < b ? b : a;
    }
    sl_free(chairs);
    return status;
}

sl_status sl_membership_open(const sl_allgather_parts *words, sl_membership *membership) {
    sl_membership *c = membership;
    int given;
    *c = (sl_membership){.members = words->members};
    SL_TRY(sl_alloc(&c->of, (size_t)c->members, sizeof *c->of));
    SL_TRY(sl_alloc(&c->host, (size_t)c->members, sizeof *c->host));
    SL_TRY(sl_alloc(&c->machine, (size_t)c->members, sizeof *c->machine));
    SL_TRY(sl_alloc(&c->wave, (size_t)c->members, sizeof *c->wave));
    SL_TRY(sl_alloc(&c->gpus, (size_t)c->members, sizeof *c->gpus));
    SL_TRY(take_words(words, c));
    name_hosts(c);
    name_machines(c);
    SL_TRY(make_waves(c));
    SL_TRY(share_gpus(c));
    SL_TRY(given_links(words, c, &given));
    return given ? SL_OK : shaped_links(c);
}
