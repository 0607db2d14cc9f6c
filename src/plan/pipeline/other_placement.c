#include "plan/pipeline/other_placement.h"
#include "base/memory.h"
#include "plan/pipeline/layers.h"

#include <string.h>

int sl_placement_find(const char *name) {
    for (int placement = 0; placement < SL_PLACEMENTS; placement++)
        if (strcmp(name, sl_placement_name((sl_placement)placement)) == 0)
            return placement;
    return -1;
}

/* How often a microbatch runs through a stage of a rank. */
static int visits(const sl_problem *p) {
    return p->placement == SL_BIDIRECTIONAL ? 1 : p->stages / p->ranks;
}

/* A rank's time for a microbatch, without the overhead of ops of this kind (-1: none); for bidirectional, the
 * mean of the two copies. */
static sl_time rank_time(const sl_problem *p, const sl_time *of_stage, int kind, int rank) {
    sl_time sum = 0;
    for (int stage = 0; stage < p->stages; stage++)
        if (sl_problem_rank(p, stage) == rank)
            sum += of_stage[stage] - (kind < 0 ? 0 : sl_problem_overhead(p, kind, stage));
    return p->placement == SL_BIDIRECTIONAL ? sum / 2 : sum;
}

static double rank_memory(const sl_problem *p, const double *of_stage, int rank) {
    double sum = 0;
    for (int stage = 0; stage < p->stages; stage++)
        if (sl_problem_rank(p, stage) == rank)
            sum += of_stage[stage];
    return p->placement == SL_BIDIRECTIONAL ? sum / 2 : sum;
}

static int rank_recomputes(const sl_problem *p, int rank) {
    int any = 0;
    for (int stage = 0; stage < p->stages; stage++)
        any |= sl_problem_rank(p, stage) == rank && p->recompute[stage];
    return any;
}

/* The new stages of a rank, in ascending order, each get a share of its time. */
static void divide_times(const sl_problem *p, const sl_time *from, int kind, const sl_problem *placed,
                         sl_time *to) {
    int shares = visits(placed);
    for (int stage = 0; stage < placed->stages; stage++) {
        sl_time whole = rank_time(p, from, kind, sl_problem_rank(placed, stage));
        int share = shares == 1 ? 0 : stage / placed->ranks;
        to[stage] = whole / shares + (share < whole % shares ? 1 : 0);
    }
}

/* The new stages have other messages, and so another overhead. */
static void divide_ops(const sl_problem *p, int kind, sl_problem *placed) {
    divide_times(p, p->time[kind], kind, placed, placed->time[kind]);
    for (int stage = 0; stage < placed->stages; stage++)
        placed->time[kind][stage] += sl_problem_overhead(placed, kind, stage);
}

static void divide_memory(const sl_problem *p, const double *from, const sl_problem *placed, double *to) {
    for (int stage = 0; stage < placed->stages; stage++)
        to[stage] = rank_memory(p, from, sl_problem_rank(placed, stage)) / visits(placed);
}

static sl_status cut_layers(const sl_problem *p, sl_problem *placed) {
    int stages = placed->placement == SL_BIDIRECTIONAL ? placed->ranks : placed->stages, *first;
    if (p->layers->count < stages)
        return sl_error(SL_EINVAL, "placement %s needs at least %d layers, got %d",
                        sl_placement_name(placed->placement), stages, p->layers->count);
    SL_TRY(sl_layers_copy(p->layers, p->ranks, p->stages, &placed->layers));
    SL_FREE(placed->layers->first, placed->layers->letter);
    placed->layers->first = NULL;
    placed->layers->letter = NULL; /* a layout is of one placement */
    SL_TRY(sl_alloc(&placed->layers->first, (size_t)placed->stages + 1, sizeof *first));
    SL_TRY(sl_alloc(&first, (size_t)placed->stages + 1, sizeof *first));
    for (int stage = 0; stage <= stages; stage++)
        first[stage] = (int)((int64_t)p->layers->count * stage / stages);
    for (int stage = 0; stage < placed->stages; stage++)
        placed->recompute[stage] = (unsigned char)rank_recomputes(p, sl_problem_rank(placed, stage));
    sl_problem_cut(placed, first);
    sl_free(first);
    return SL_OK;
}

static void divide_stages(const sl_problem *p, sl_problem *placed) {
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        divide_ops(p, kind, placed);
        divide_memory(p, p->delta[kind], placed, placed->delta[kind]);
    }
    divide_times(p, p->saved, -1, placed, placed->saved);
    divide_memory(p, p->start, placed, placed->start);
    divide_memory(p, p->early, placed, placed->early);
    for (int stage = 0; stage < placed->stages; stage++)
        placed->recompute[stage] = (unsigned char)rank_recomputes(p, sl_problem_rank(placed, stage));
}

static sl_status copy_ranks(const sl_problem *p, sl_problem *placed) {
    size_t ranks = (size_t)p->ranks;
    memcpy(placed->link, p->link, ranks * ranks * sizeof *p->link);
    if (p->limit) {
        SL_TRY(sl_alloc(&placed->limit, ranks, sizeof *placed->limit));
        memcpy(placed->limit, p->limit, ranks * sizeof *p->limit);
    }
    if (p->fixed) {
        SL_TRY(sl_alloc(&placed->fixed, ranks, sizeof *placed->fixed));
        memcpy(placed->fixed, p->fixed, ranks * sizeof *p->fixed);
    }
    if (p->host_limit) { /* the same memory, in activations of another size */
        SL_TRY(sl_alloc(&placed->host_limit, ranks, sizeof *placed->host_limit));
        for (size_t rank = 0; rank < ranks; rank++) {
            int64_t held = (int64_t)p->host_limit[rank] * visits(placed) / visits(p);
            placed->host_limit[rank] = held < SL_MAX_HOST ? (int32_t)held : SL_MAX_HOST;
        }
    }
    if (p->wire) {
        SL_TRY(sl_alloc(&placed->wire, ranks * ranks, sizeof *placed->wire));
        memcpy(placed->wire, p->wire, ranks * ranks * sizeof *p->wire);
    }
    return SL_OK;
}

sl_status sl_problem_with_placement(const sl_problem *p, sl_placement placement, sl_problem *placed) {
    *placed = (sl_problem){0};
    if (placement == p->placement)
        return sl_problem_copy(p, placed);
    int stages = placement == SL_LINEAR ? p->ranks : 2 * p->ranks;
    int64_t ops = (int64_t)stages * p->microbatches * 3 * p->parts;
    if (stages > SL_MAX_STAGES || ops > SL_MAX_OPS)
        return sl_error(SL_EINVAL, "placement %s makes %d stages and %lld ops; at most %d and %d",
                        sl_placement_name(placement), stages, (long long)ops, SL_MAX_STAGES, SL_MAX_OPS);
    SL_TRY(sl_problem_make(p->ranks, stages, p->microbatches, placed));
    placed->placement = placement;
    placed->objective = p->objective;
    placed->synchronization = p->synchronization;
    placed->communication = p->communication;
    placed->queue = p->queue;
    placed->communicators = p->communicators;
    placed->eager = p->eager;
    placed->receive_buffers = p->receive_buffers;
    placed->parts = p->parts;
    placed->percentile = p->percentile;
    placed->overhead_op = p->overhead_op;
    placed->overhead_message = p->overhead_message;
    SL_TRY(copy_ranks(p, placed));
    divide_times(p, p->gather, -1, placed, placed->gather);
    divide_times(p, p->reduce, -1, placed, placed->reduce);
    divide_times(p, p->offload, -1, placed, placed->offload);
    if (p->layers)
        SL_TRY(cut_layers(p, placed));
    else
        divide_stages(p, placed);
    double total = sl_problem_total_ms(placed); /* more stages send more messages */
    return total <= SL_MAX_TOTAL_MS
               ? SL_OK
               : sl_error(
                     SL_EINVAL,
                     "placement %s makes ops and messages that take %g ms one after the other; at most %g",
                     sl_placement_name(placement), total, SL_MAX_TOTAL_MS);
}
