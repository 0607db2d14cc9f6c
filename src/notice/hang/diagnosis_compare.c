/* Collectives of one communicator, by their numbers. */
#include "base/memory.h"
#include "notice/hang/diagnosis_inside.h"
#include "notice/record/call.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WINDOW = 8 }; /* numbers before the one that hangs: a rank without a receiver's part runs ahead */

/* "MPI_Iallreduce", "glooAllreduce", "all_reduce" -> "allreduce". */
static void plain_name(const char *call, char *name, size_t size) {
    size_t length = 0;
    if (strncmp(call, "MPI_I", 5) == 0 && call[5] >= 'a')
        call += 5;
    else if (strncmp(call, "MPI_", 4) == 0 || strncmp(call, "gloo", 4) == 0 || strncmp(call, "nccl", 4) == 0)
        call += 4;
    for (; *call && length + 1 < size; call++)
        if (*call != '_')
            name[length++] = (char)tolower((unsigned char)*call);
    name[length] = 0;
}

/* Blocks of other calls may differ between members (Gatherv, all_to_all_single with splits). */
static int has_equal_sizes(const char *call) {
    static const char *const equal[] = {"allreduce",
                                        "bcast",
                                        "broadcast",
                                        "reduce",
                                        "allgather",
                                        "gather",
                                        "scatter",
                                        "scan",
                                        "reducescatter",
                                        "exscan",
                                        "reducescatterblock",
                                        "allgatherbase",
                                        "allgathersingle",
                                        "reducescatterbase",
                                        "reducescattersingle"};
    char name[SL_HANG_CALL];
    plain_name(call, name, sizeof name);
    for (size_t i = 0; i < sizeof equal / sizeof *equal; i++)
        if (strcmp(name, equal[i]) == 0)
            return 1;
    return strcmp(call, "MPI_Alltoall") == 0;
}

/* What two members must have in common. 0: nothing is known to differ. */
static sl_hang_cause differ(const sl_hang_collective *a, const sl_hang_collective *b, int sizes) {
    if (strcmp(a->call, b->call) != 0)
        return SL_HANG_COLLECTIVE;
    if (a->root != b->root && a->root >= 0 && b->root >= 0)
        return SL_HANG_ROOT;
    const int comparable =
        a->root == SL_PEER_NONE || (a->bytes && b->bytes); /* 0 where a root's buffer is meant */
    if (sizes && a->sized && b->sized && a->bytes != b->bytes && comparable && has_equal_sizes(a->call))
        return SL_HANG_SIZE;
    if (sizes && a->shape[0] && b->shape[0] && strcmp(a->shape, b->shape) != 0 && has_equal_sizes(a->call))
        return SL_HANG_SIZE; /* as many bytes of another type */
    return SL_HANG_NOTHING;
}

typedef struct comparison {
    const sl_hang_graph *g;
    uint64_t communicator, number;
    int sizes;
} comparison;

static const sl_hang_collective *of(const comparison *c, int rank) {
    const sl_hang_rank *r = c->g->node[rank].rank;
    return r ? sl_hang_collective_of(r, c->communicator, c->number) : NULL;
}

/* Members that agree with `rank`. */
static int agreeing(const comparison *c, int rank, unsigned char *chosen) {
    int count = 0;
    memset(chosen, 0, (size_t)c->g->size);
    for (int i = 0; i < c->g->size; i++)
        if (of(c, i) && differ(of(c, rank), of(c, i), c->sizes) == SL_HANG_NOTHING) {
            chosen[i] = 1;
            count++;
        }
    return count;
}

static void say_call(sl_hang_text *t, const sl_hang_collective *call, sl_hang_cause cause) {
    sl_hang_add_text(t, "%s", call->call);
    if (cause == SL_HANG_ROOT)
        sl_hang_add_text(t, " with root %d", call->root);
    if (cause == SL_HANG_SIZE && call->shape[0])
        sl_hang_add_text(t, " of %s", call->shape);
    else if (cause == SL_HANG_SIZE)
        sl_hang_add_text(t, " of %" PRIu64 " bytes", call->bytes);
}

static void describe(const comparison *c, int few, int many, sl_hang_cause cause, sl_hang_verdict *v,
                     unsigned char *chosen) {
    sl_hang_text seen = {v->seen, sizeof v->seen, 0}, why = {v->why, sizeof v->why, 0};
    const int size = c->g->size;
    int count = agreeing(c, few, chosen), others = 0;
    unsigned char *other = chosen + size;
    v->cause = cause;
    v->certain = 1;
    others = agreeing(c, many, other);
    v->rank = count < others ? few : -1;
    v->peer = -1;
    sl_hang_add_text(&seen, "collective %" PRIu64 " ", c->number);
    sl_hang_say_members(&seen, c->g, c->communicator);
    sl_hang_add_text(&seen, ": ");
    sl_hang_say_ranks(&seen, chosen, size);
    sl_hang_add_text(&seen, count == 1 ? " calls " : " call ");
    say_call(&seen, of(c, few), cause);
    sl_hang_add_text(&seen, ", ");
    sl_hang_say_ranks(&seen, other, size);
    sl_hang_add_text(&seen, others == 1 ? " calls " : " call ");
    say_call(&seen, of(c, many), cause);
    sl_hang_add_text(&why, "rank %d ", few);
    sl_hang_say_doing(&why, c->g, few);
    sl_hang_add_text(&why, "; rank %d ", many);
    sl_hang_say_doing(&why, c->g, many);
}

/* The two largest groups that differ: the smaller is named. */
static int compare_number(const comparison *c, sl_hang_verdict *v, unsigned char *chosen) {
    int first = -1;
    for (int i = 0; i < c->g->size; i++) {
        if (!of(c, i))
            continue;
        if (first < 0)
            first = i;
        sl_hang_cause cause = differ(of(c, first), of(c, i), c->sizes);
        if (cause == SL_HANG_NOTHING)
            continue;
        int one = agreeing(c, first, chosen), other = agreeing(c, i, chosen);
        describe(c, one < other ? first : i, one < other ? i : first, cause, v, chosen);
        return 1;
    }
    return 0;
}

/* Of the communicator's members: the fewest collectives of one, and the most. */
static uint64_t fewest(const sl_hang_graph *g, uint64_t communicator, uint64_t *most) {
    const sl_channel_key key = {communicator, -1, -1, -1, SL_CHANNEL_COLLECTIVE};
    uint64_t least = UINT64_MAX;
    *most = 0;
    for (int i = 0; i < g->size; i++) {
        const sl_hang_channel *c = g->node[i].rank ? sl_hang_channel_of(g->node[i].rank, &key) : NULL;
        if (!c)
            continue;
        least = c->announced < least ? c->announced : least;
        *most = c->announced > *most ? c->announced : *most;
    }
    return least;
}

static int compare_communicator(const sl_hang_graph *g, uint64_t communicator, sl_hang_verdict *v,
                                unsigned char *chosen) {
    uint64_t most, least = fewest(g, communicator, &most);
    if (least == UINT64_MAX)
        return 0;
    for (uint64_t n = least > WINDOW ? least - WINDOW : 1; n <= most && n <= least + WINDOW; n++) {
        const comparison c = {g, communicator, n, n >= least};
        if (compare_number(&c, v, chosen))
            return 1;
    }
    return 0;
}

int sl_hang_compare(const sl_hang_graph *g, sl_hang_verdict *v) {
    unsigned char *chosen = NULL;
    int found = 0;
    if (sl_alloc(&chosen, 2 * (size_t)g->size + 1, 1) != SL_OK)
        return 0;
    for (int i = 0; i < g->size && !found; i++) {
        const sl_hang_thread *t = g->node[i].thread;
        for (size_t w = 0; t && w < t->waits && !found; w++)
            if (t->wait[w].channel.kind == SL_CHANNEL_COLLECTIVE)
                found = compare_communicator(g, t->wait[w].channel.communicator, v, chosen);
    }
    sl_free(chosen);
    return found;
}
