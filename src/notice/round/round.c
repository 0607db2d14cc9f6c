#include "notice/round/round.h"
#include "base/clock.h"
#include "base/memory.h"
#include "notice/round/gemm.h"
#include "notice/validate/evidence.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Longer than a pass with a link that carries nothing: round trips, both directions, their ends. */
#define STEP (4 * SL_SECOND)
#define STEP_MIN (500 * SL_MS)
#define ARRIVAL (5 * SL_SECOND) /* of a process that was started at the same time */
#define CONNECTING SL_SECOND
#define GPU_WINDOW (60 * SL_MS)
#define GPU_TEST (1200 * SL_MS)    /* of one GPU: its context, products, copies */
#define GPU_START (60 * SL_SECOND) /* of many, which the driver must wake */

typedef struct round {
    const sl_validate_request *request;
    const sl_allgather *allgather;
    sl_round_result *result;
    sl_membership *membership;
    int listener, *wire; /* [ends] */
    sl_link_evidence *before;
    sl_member_samples samples;
    sl_gemm *gemm;
    sl_watch_cpu *watch;
    sl_time begin;
    sl_original_group original;
    int apart; /* it could leave the rank's control groups again */
} round;

/* Where there is a deadline a lost member must not take all of it. */
static sl_time patience(const round *r, sl_time usual) {
    if (r->request->deadline <= 0)
        return usual;
    sl_time left = (r->request->deadline - (sl_now() - r->begin)) / 2;
    return left < STEP_MIN ? STEP_MIN : left < usual ? left : usual;
}

/* Moves to where the rank runs, for the same conditions. */
static void go_to_rank(round *r) {
    if (r->request->pid > 0)
        sl_join_process(r->request->pid, r->result->joined, sizeof r->result->joined);
}

/* Links are tested outside the rank's control groups. Inside, their ends would be slow for lack of a
 * processor, not because of the link. */
static void come_back(round *r) {
    if (r->request->pid > 0)
        r->apart = sl_original_group_return(&r->original);
}

static sl_status introduce(round *r, int rank) {
    sl_wire_address address;
    void *words = NULL;
    size_t size = 0;
    sl_allgather_parts all = {0};
    SL_TRY(sl_wire_listen(r->request->address, &address, &r->listener));
    go_to_rank(r); /* identifies the processors */
    sl_status status = sl_introduce(r->request, rank, &address, &words, &size);
    come_back(r);
    SL_THEN(status, r->allgather->gather_all(r->allgather->context, words, size, patience(r, ARRIVAL), &all));
    SL_THEN(status, sl_membership_open(&all, r->membership));
    sl_allgather_parts_free(&all);
    sl_free(words);
    return status;
}

/* ---- wires ---- */

static int is_end(const round *r, int pair) {
    const sl_member_pair *p = &r->membership->links.pair[pair];
    return p->a == r->allgather->self || p->b == r->allgather->self;
}

static int is_here(const round *r, int member) {
    return r->membership->of[member].version != 0;
}

static int gpus_of(const round *r) {
    return __builtin_popcountll(r->membership->gpus[r->allgather->self]);
}

static sl_status list_ends(round *r) {
    int ends = 0, links = r->membership->links.count;
    for (int i = 0; i < links; i++)
        ends += is_end(r, i);
    SL_TRY(sl_member_samples_open(r->request->repeat, ends, gpus_of(r), &r->samples));
    SL_TRY(sl_alloc(&r->wire, (size_t)ends, sizeof *r->wire));
    SL_TRY(sl_alloc(&r->before, (size_t)ends, sizeof *r->before));
    for (int i = 0, n = 0; i < links; i++)
        if (is_end(r, i)) {
            r->wire[n] = -1;
            r->samples.end[n++] = (sl_link_end){.pair = i, .state = SL_WIRE_REFUSED};
        }
    return SL_OK;
}

/* Members with a larger number have the listener; a connection waits there until it is opened. */
static int connect_all(round *r, sl_time deadline) {
    int awaited = 0, self = r->allgather->self;
    const sl_introduction *of = r->membership->of;
    for (int i = 0; i < r->samples.ends; i++) {
        sl_link_end *end = &r->samples.end[i];
        const sl_member_pair *p = &r->membership->links.pair[end->pair];
        if (p->b == self) {
            awaited += is_here(r, p->a);
            continue;
        }
        if (!is_here(r, p->b))
            continue;
        sl_wire_connect(&of[self].address, &of[p->b].address,
                        r->membership->host[self] == r->membership->host[p->b], r->membership->token,
                        end->pair, deadline, &r->wire[i], end->why, sizeof end->why);
        if (r->wire[i] >= 0)
            end->why[0] = 0;
    }
    return awaited;
}

static void accept_all(round *r, int awaited, sl_time deadline) {
    while (awaited > 0) {
        int link, file = sl_wire_accept(r->listener, r->membership->token, deadline, &link), known = 0;
        if (file < 0)
            return;
        for (int i = 0; i < r->samples.ends; i++)
            if (r->samples.end[i].pair == link && r->wire[i] < 0 &&
                r->membership->links.pair[link].b == r->allgather->self) {
                r->wire[i] = file;
                known = 1;
            }
        awaited -= known;
        if (!known)
            close(file);
    }
}

static sl_status make_wires(round *r) {
    sl_time deadline = sl_now() + patience(r, CONNECTING);
    SL_TRY(list_ends(r));
    int awaited = connect_all(r, deadline);
    accept_all(r, awaited, deadline);
    for (int i = 0; i < r->samples.ends; i++) {
        if (r->wire[i] >= 0)
            r->samples.end[i].state = SL_WIRE_TESTED;
        else if (!r->samples.end[i].why[0])
            snprintf(r->samples.end[i].why, sizeof r->samples.end[i].why,
                     "no connection arrived at the listener");
        sl_link_evidence_begin(r->wire[i], &r->before[i]);
    }
    return SL_OK;
}

/* ---- devices ---- */

static sl_status open_device(round *r) {
    int *ours, count = 0, self = r->allgather->self;
    if (r->membership->wave[self] < 0)
        return SL_OK;
    SL_TRY(sl_alloc(&ours, 2 * (size_t)r->membership->members, sizeof *ours));
    for (int i = 0; i < r->membership->members; i++)
        if (is_here(r, i) && r->membership->machine[i] == r->membership->machine[self] &&
            strcmp(r->membership->of[i].numbers, r->membership->of[self].numbers) == 0) {
            ours[count++] = r->membership->of[i].own_pid;
            if (r->membership->of[i].pid > 0)
                ours[count++] = r->membership->of[i].pid;
        }
    sl_status status = sl_watch_cpu_open(&r->membership->of[self].cores, ours, count, &r->watch);
    sl_free(ours);
    SL_TRY(status);
    return r->gemm ? SL_OK : sl_gemm_open(r->request->threads, &r->gemm);
}

static sl_status test_here(round *r, int repeat) {
    SL_TRY(sl_gemm_warm(r->gemm));
    SL_TRY(sl_watch_cpu_begin(r->watch));
    SL_TRY(sl_gemm_run(r->gemm, r->request->window, &r->samples.gflops[repeat]));
    r->samples.devices = 1;
    return sl_watch_cpu_end(r->watch);
}

static sl_status test_device(round *r, int repeat) {
    go_to_rank(r);
    sl_status status = test_here(r, repeat);
    come_back(r);
    return status;
}

static sl_status test_devices(round *r, int repeat) {
    for (int wave = 0; wave < r->membership->waves; wave++) {
        SL_TRY(sl_allgather_barrier(r->allgather, patience(r, STEP), NULL));
        if (r->membership->wave[r->allgather->self] == wave)
            SL_TRY(test_device(r, repeat));
    }
    return SL_OK;
}

/* ---- GPUs ---- */

/* Each once, while no other test runs; copies use the host's memory, which the products of processors use,
 * too. */
static sl_status test_gpus(round *r) {
    int n = 0, any = 0;
    for (int i = 0; i < r->membership->members; i++)
        any |= r->membership->gpus[i] != 0;
    for (int gpu = 0; gpu < SL_GPUS_MAX; gpu++) {
        if (!(r->membership->gpus[r->allgather->self] >> gpu & 1))
            continue;
        sl_gpu_result *result = &r->samples.gpu[n++];
        if (r->request->deadline > 0 && r->request->deadline - (sl_now() - r->begin) < GPU_TEST) {
            *result = (sl_gpu_result){.index = gpu, .rates.multiprocessor = -1};
            snprintf(result->rates.why, sizeof result->rates.why, "no time was left to test it");
        } else
            sl_gpu_test(gpu, GPU_WINDOW, result);
    }
    return any ? sl_allgather_barrier(r->allgather, patience(r, GPU_START), NULL) : SL_OK;
}

/* ---- links ---- */

static sl_status test_links(round *r, int repeat) {
    for (int i = 0; i < r->samples.ends; i++)
        r->samples.link[(size_t)i * (size_t)r->samples.room + (size_t)repeat] =
            (sl_link_sample){.latency_ms = -1, .gb_per_s = -1};
    for (int pass = 0; pass < r->membership->links.passes; pass++) {
        SL_TRY(sl_allgather_barrier(r->allgather, patience(r, STEP), NULL));
        /* a link that carries nothing must not look like two members that are lost */
        sl_time limit = patience(r, STEP) / (SL_LINK_LIMITS + 1);
        limit = limit < SL_LINK_LIMIT ? limit : SL_LINK_LIMIT;
        for (int i = 0; i < r->samples.ends; i++) {
            const sl_member_pair *p = &r->membership->links.pair[r->samples.end[i].pair];
            if (p->pass != pass || r->wire[i] < 0)
                continue;
            sl_link_sample *sample = &r->samples.link[(size_t)i * (size_t)r->samples.room + (size_t)repeat];
            sl_link_test(&r->wire[i], p->a == r->allgather->self, limit, sample);
        }
    }
    return SL_OK;
}

static void end_wires(round *r) {
    for (int i = 0; i < r->samples.ends; i++) {
        r->samples.end[i].evidence = r->before[i];
        if (r->wire[i] >= 0)
            sl_link_evidence_end(r->wire[i], &r->before[i], &r->samples.end[i].evidence);
        else
            r->samples.end[i].evidence.errors = r->samples.end[i].evidence.drops =
                r->samples.end[i].evidence.resent = -1;
    }
}

/* ---- all ---- */

/* All stop when one cannot end another repeat in time. */
static sl_status repeat_all(round *r) {
    int stop = 0;
    sl_time took = 0;
    for (int repeat = 0; repeat < r->request->repeat && !stop; repeat++) {
        sl_time begin = sl_now();
        SL_TRY(test_devices(r, repeat));
        SL_TRY(test_links(r, repeat));
        r->samples.repeats = repeat + 1;
        took = sl_now() - begin > took ? sl_now() - begin : took;
        stop = r->request->deadline > 0 &&
               sl_now() - r->begin + took + took / 4 > r->request->deadline - r->request->deadline / 8;
        SL_TRY(sl_allgather_barrier(r->allgather, patience(r, STEP), &stop));
    }
    return SL_OK;
}

static sl_status share_samples(round *r) {
    sl_allgather_parts all = {0};
    void *bytes = NULL;
    size_t size = 0;
    if (r->watch)
        sl_watch_cpu_evidence(r->watch, &r->samples.evidence);
    r->samples.evidence.joined = r->request->pid > 0 && !r->result->joined[0];
    r->samples.evidence.apart = r->apart;
    if (r->request->pid > 0)
        r->samples.evidence.gpus =
            sl_gpus_of(r->request->pid, "/dev/nvidia") + sl_gpus_of(r->request->pid, "/dev/dri/renderD");
    end_wires(r);
    sl_status status = sl_member_samples_pack(&r->samples, &bytes, &size);
    SL_THEN(status, r->allgather->gather_all(r->allgather->context, bytes, size, patience(r, STEP), &all));
    SL_THEN(status, sl_member_samples_join(&all, r->result));
    r->result->reports = r->result->reports == r->allgather->self;
    sl_allgather_parts_free(&all);
    sl_free(bytes);
    return status;
}

static void close_round(round *r) {
    for (int i = 0; r->wire && i < r->samples.ends; i++)
        if (r->wire[i] >= 0)
            close(r->wire[i]);
    if (r->listener >= 0)
        close(r->listener);
    SL_FREE(r->wire, r->before);
    sl_member_samples_free(&r->samples);
    sl_gemm_close(r->gemm);
    sl_watch_cpu_close(r->watch);
}

sl_status sl_round(const sl_validate_request *request, const sl_allgather *allgather, int rank,
                   sl_round_result *result) {
    *result = (sl_round_result){0};
    round r = {.request = request,
               .allgather = allgather,
               .result = result,
               .membership = &result->membership,
               .listener = -1,
               .begin = sl_now()};
    sl_original_group_find(&r.original);
    /* before this process has no more than the rank's processors: making a product takes a while */
    sl_status status;
    if (request->gemm) {
        SL_TRY_GOTO(done, status, sl_gemm_open(request->threads, &r.gemm));
        SL_TRY_GOTO(done, status, sl_gemm_warm(r.gemm));
    }
    SL_TRY_GOTO(done, status, introduce(&r, rank));
    SL_TRY_GOTO(done, status, make_wires(&r));
    SL_TRY_GOTO(done, status, open_device(&r));
    SL_TRY_GOTO(done, status, test_gpus(&r));
    SL_TRY_GOTO(done, status, repeat_all(&r));
    SL_TRY_GOTO(done, status, share_samples(&r));
done:
    close_round(&r);
    return status;
}
