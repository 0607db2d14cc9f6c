#include "plan/pipeline/problem.h"
#include "base/memory.h"
#include "plan/pipeline/layers.h"

#include <math.h>
#include <string.h>

/* All per-stage arrays, listed once for making, copying and freeing. */
static sl_time **times_of(sl_problem *p, int i) {
    sl_time **const all[] = {&p->time[SL_F], &p->time[SL_I], &p->time[SL_W],
                             &p->time[SL_B], &p->saved,      &p->gather,
                             &p->reduce,     &p->offload,    NULL};
    return all[i];
}

static double **memory_of(sl_problem *p, int i) {
    double **const all[] = {
        &p->delta[SL_F], &p->delta[SL_I], &p->delta[SL_W], &p->delta[SL_B], &p->start, &p->early, NULL};
    return all[i];
}

sl_status sl_problem_make(int ranks, int stages, int microbatches, sl_problem *problem) {
    *problem = (sl_problem){.ranks = ranks,
                            .stages = stages,
                            .microbatches = microbatches,
                            .queue = 1,
                            .parts = 1,
                            .percentile = 90};
    const size_t links = (size_t)ranks * (size_t)ranks;
    sl_status status;
    SL_TRY_GOTO(err_free, status, sl_alloc(&problem->link, links, sizeof *problem->link));
    for (int i = 0; times_of(problem, i); i++)
        SL_TRY_GOTO(err_free, status, sl_alloc(times_of(problem, i), (size_t)stages, sizeof(sl_time)));
    for (int i = 0; memory_of(problem, i); i++)
        SL_TRY_GOTO(err_free, status, sl_alloc(memory_of(problem, i), (size_t)stages, sizeof(double)));
    SL_TRY_GOTO(err_free, status, sl_alloc(&problem->recompute, (size_t)stages, 1));
    for (int stage = 0; stage < stages; stage++) {
        problem->delta[SL_F][stage] = 1;
        problem->delta[SL_W][stage] = problem->delta[SL_B][stage] = -1;
    }
    return SL_OK;
err_free:
    sl_problem_free(problem);
    return status;
}

/* The arrays that a problem may lack. */
static sl_status copy_optional(const sl_problem *problem, sl_problem *copy) {
    size_t ranks = (size_t)problem->ranks;
    if (problem->limit) {
        SL_TRY(sl_alloc(&copy->limit, ranks, sizeof *copy->limit));
        memcpy(copy->limit, problem->limit, ranks * sizeof *copy->limit);
    }
    if (problem->fixed) {
        SL_TRY(sl_alloc(&copy->fixed, ranks, sizeof *copy->fixed));
        memcpy(copy->fixed, problem->fixed, ranks * sizeof *copy->fixed);
    }
    if (problem->host_limit) {
        SL_TRY(sl_alloc(&copy->host_limit, ranks, sizeof *copy->host_limit));
        memcpy(copy->host_limit, problem->host_limit, ranks * sizeof *copy->host_limit);
    }
    if (problem->wire) {
        SL_TRY(sl_alloc(&copy->wire, ranks * ranks, sizeof *copy->wire));
        memcpy(copy->wire, problem->wire, ranks * ranks * sizeof *copy->wire);
    }
    return problem->layers ? sl_layers_copy(problem->layers, problem->ranks, problem->stages, &copy->layers)
                           : SL_OK;
}

sl_status sl_problem_copy(const sl_problem *problem, sl_problem *copy) {
    int ranks = problem->ranks, stages = problem->stages;
    sl_problem from = *problem;
    SL_TRY(sl_problem_make(ranks, stages, problem->microbatches, copy));
    copy->placement = problem->placement;
    copy->objective = problem->objective;
    copy->synchronization = problem->synchronization;
    copy->communication = problem->communication;
    copy->queue = problem->queue;
    copy->communicators = problem->communicators;
    copy->eager = problem->eager;
    copy->receive_buffers = problem->receive_buffers;
    copy->parts = problem->parts;
    copy->percentile = problem->percentile;
    copy->overhead_op = problem->overhead_op;
    copy->overhead_message = problem->overhead_message;
    for (int i = 0; times_of(&from, i); i++)
        memcpy(*times_of(copy, i), *times_of(&from, i), (size_t)stages * sizeof(sl_time));
    for (int i = 0; memory_of(&from, i); i++)
        memcpy(*memory_of(copy, i), *memory_of(&from, i), (size_t)stages * sizeof(double));
    memcpy(copy->recompute, problem->recompute, (size_t)stages);
    memcpy(copy->link, problem->link, (size_t)ranks * (size_t)ranks * sizeof *copy->link);
    sl_status status = copy_optional(problem, copy);
    if (status != SL_OK)
        sl_problem_free(copy);
    return status;
}

void sl_problem_free(sl_problem *problem) {
    for (int i = 0; times_of(problem, i); i++)
        sl_free(*times_of(problem, i));
    for (int i = 0; memory_of(problem, i); i++)
        sl_free(*memory_of(problem, i));
    SL_FREE(problem->recompute, problem->limit, problem->fixed, problem->host_limit, problem->link,
            problem->wire);
    sl_layers_free(problem->layers);
    *problem = (sl_problem){0};
}

sl_time sl_problem_pair_time(const sl_problem *p, int forward_stage, int backward_stage) {
    int f = forward_stage, b = backward_stage;
    return sl_pair_time(p->time[SL_F][f], p->time[SL_B][b], p->saved[f], p->saved[b]);
}

double sl_problem_room(const sl_problem *p, int rank) {
    double largest = 0;
    for (int stage = 0; p->host_limit && stage < p->stages; stage++)
        for (int half = 0; half < 2 && sl_problem_rank(p, stage) == rank; half++)
            largest = sl_problem_kept(p, stage, half) > largest ? sl_problem_kept(p, stage, half) : largest;
    return p->limit[rank] + (p->host_limit ? p->host_limit[rank] * largest : 0);
}

/* ---- placement: the rank of each stage, and the path of a microbatch through the stages ---- */

const char *sl_placement_name(sl_placement placement) {
    static const char *const names[SL_PLACEMENTS] = {"linear", "loop", "wave", "bidirectional"};
    return placement < SL_PLACEMENTS ? names[placement] : "?";
}

int sl_problem_rank(const sl_problem *p, int stage) {
    int column = stage % p->ranks;
    switch (p->placement) {
    case SL_WAVE:
        return stage / p->ranks % 2 ? p->ranks - 1 - column : column;
    case SL_BIDIRECTIONAL: /* the second pipeline runs up */
        return stage >= p->ranks ? p->ranks - 1 - column : column;
    default: /* linear and loop */
        return column;
    }
}

int sl_problem_runs(const sl_problem *p, int stage, int microbatch) {
    return p->placement != SL_BIDIRECTIONAL || (stage >= p->ranks) == microbatch % 2;
}

int sl_problem_next(const sl_problem *p, int stage) {
    int last = stage == p->stages - 1 || (p->placement == SL_BIDIRECTIONAL && stage == p->ranks - 1);
    return last ? -1 : stage + 1;
}

int sl_problem_previous(const sl_problem *p, int stage) {
    return p->placement == SL_BIDIRECTIONAL && stage == p->ranks ? -1 : stage - 1;
}

int sl_problem_microbatches(const sl_problem *p, int stage) {
    if (p->placement != SL_BIDIRECTIONAL)
        return p->microbatches;
    return stage >= p->ranks ? p->microbatches / 2 : (p->microbatches + 1) / 2;
}

int sl_problem_rank_ops(const sl_problem *p, int rank, int kinds) {
    int ops = 0;
    for (int stage = 0; stage < p->stages; stage++)
        if (sl_problem_rank(p, stage) == rank)
            ops += sl_problem_microbatches(p, stage) * kinds * p->parts;
    return ops;
}

/* ---- cuts of layers into stages ---- */

/* The stage's layers keep their inputs only. I and B compute them again, one after the other, each from its
 * input; I leaves all that W needs. */
static void recompute_layers(sl_problem *p, int stage, int begin, int end) {
    const sl_layers *l = p->layers;
    double all = p->delta[SL_F][stage], kept = 0, most = 0;
    for (int layer = begin; layer < end; layer++) {
        kept += l->input[layer];
        most = fmax(most, l->delta[SL_F][layer] - l->input[layer]);
    }
    p->time[SL_I][stage] += p->time[SL_F][stage];
    p->time[SL_B][stage] += p->time[SL_F][stage];
    p->delta[SL_F][stage] = kept;
    p->early[stage] = p->start[stage] + most;
    p->delta[SL_I][stage] += all - kept - most;
    p->delta[SL_B][stage] += all - kept - most;
}

/* One stage from its layers; returns its weights. */
static double fill_stage(sl_problem *p, int stage, int begin, int end) {
    const sl_layers *l = p->layers;
    double speed = l->speed[sl_problem_rank(p, stage)], weights = 0;
    double early = 0;
    p->start[stage] = 0;
    for (int layer = begin; layer < end; layer++) { /* one layer after the other */
        early += l->early[layer];
        p->start[stage] = fmax(p->start[stage], l->early[layer]);
    }
    p->early[stage] = p->start[stage];
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        sl_time time = 0;
        p->delta[kind][stage] = 0;
        for (int layer = begin; layer < end; layer++) {
            time += l->time[kind][layer];
            p->delta[kind][stage] += l->delta[kind][layer];
        }
        p->time[kind][stage] = (sl_time)llround((double)time / speed);
    }
    p->delta[SL_I][stage] += early - p->start[stage];
    p->delta[SL_B][stage] += early - p->start[stage];
    if (p->recompute[stage])
        recompute_layers(p, stage, begin, end);
    sl_problem_add_overhead(p, stage, 1);
    for (int layer = begin; layer < end; layer++)
        weights += l->weights[layer];
    if (l->gather && l->reduce) {
        p->gather[stage] = p->reduce[stage] = 0;
        for (int layer = begin; layer < end; layer++) {
            p->gather[stage] += l->gather[layer];
            p->reduce[stage] += l->reduce[layer];
        }
    }
    return weights;
}

/* Host memory of a rank: what its layers leave of it, in activations of the largest size that moves. */
static void fill_host(sl_problem *p, int rank, const int *first) {
    const sl_layers *l = p->layers;
    double left = l->host_memory, largest = 0;
    for (int stage = 0; stage < p->stages; stage++) {
        if (sl_problem_rank(p, stage) != rank)
            continue;
        double moves = fmax(sl_problem_kept(p, stage, 0), sl_problem_kept(p, stage, 1));
        largest = fmax(largest, moves);
        for (int layer = first[stage]; layer < first[stage + 1] && l->hosted; layer++)
            left -= l->hosted[layer];
        if (p->host_limit)
            p->offload[stage] = (sl_time)llround(fmin(moves * l->host_pace, SL_MAX_OP_MS * 1e6));
    }
    if (left < 0 && p->limit)
        p->limit[rank] = 0;
    if (p->host_limit)
        p->host_limit[rank] = left > 0 && largest > 0 ? (int32_t)fmin(floor(left / largest), SL_MAX_HOST) : 0;
}

void sl_problem_cut(sl_problem *p, const int *first) {
    sl_layers *l = p->layers;
    memmove(l->first, first, ((size_t)p->stages + 1) * sizeof *first);
    for (int rank = 0; rank < p->ranks; rank++) {
        double weights = 0;
        for (int stage = 0; stage < p->stages; stage++) {
            int at = p->placement == SL_BIDIRECTIONAL ? stage % p->ranks : stage;
            if (sl_problem_rank(p, stage) == rank)
                weights += fill_stage(p, stage, first[at], first[at + 1]);
        }
        if (p->fixed) /* a file's layers have it */
            p->fixed[rank] = weights;
        if (p->limit)
            p->limit[rank] = l->memory[rank] > weights ? l->memory[rank] - weights : 0;
        if (l->host_memory > 0)
            fill_host(p, rank, first);
    }
}
