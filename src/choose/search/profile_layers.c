#include "choose/search/profile_layers.h"
#include "base/memory.h"
#include "plan/pipeline/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The lower one of two: a slow rank has no share in it. */
static double lower_median(double *value, int count) {
    qsort(value, (size_t)count, sizeof *value, by_value);
    return value[(count - 1) / 2];
}

static int layers_of(const sl_problem *p, int layers, int stage) {
    return (int)((int64_t)layers * (stage + 1) / p->stages - (int64_t)layers * stage / p->stages);
}

static double stage_work(const sl_problem *p, int stage) {
    return (double)(sl_problem_own_time(p, SL_F, stage) +
                    sl_sooner(sl_problem_own_time(p, SL_B, stage),
                              sl_problem_own_time(p, SL_I, stage) + sl_problem_own_time(p, SL_W, stage)));
}

/* Work of an inner layer: the median over the inner stages; of all, if there are none. */
static sl_status inner_work(const sl_problem *p, int layers, double *work) {
    double *each;
    int first = p->stages > 2 ? 1 : 0, end = p->stages > 2 ? p->stages - 1 : p->stages;
    SL_TRY(sl_alloc(&each, (size_t)p->stages, sizeof *each));
    for (int stage = first; stage < end; stage++)
        each[stage - first] = stage_work(p, stage) / layers_of(p, layers, stage);
    *work = lower_median(each, end - first);
    sl_free(each);
    return SL_OK;
}

/* Share of an end stage's work that is not that of its inner layers; 0 if small. */
static double extra_share(const sl_problem *p, int layers, int stage, double inner) {
    double all = stage_work(p, stage), extra = all - inner * layers_of(p, layers, stage);
    return p->stages > 2 && all > 0 && extra > 0.05 * inner ? extra / all : 0;
}

static void fill_layer(const sl_problem *p, int stage, double share, double speed, int layer, sl_layers *l) {
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        l->time[kind][layer] = (sl_time)llround((double)sl_problem_own_time(p, kind, stage) * share * speed);
        l->delta[kind][layer] = p->delta[kind][stage] * share;
    }
    l->early[layer] = p->early[stage] * share;
    l->weights[layer] = sl_problem_fixed(p, sl_problem_rank(p, stage)) * share * p->ranks / p->stages;
    l->gather[layer] = (sl_time)((double)p->gather[stage] * share);
    l->reduce[layer] = (sl_time)((double)p->reduce[stage] * share);
}

/* How fast a rank is compared with the median inner one; at the ends a slow rank looks like an end. */
static double rank_speed(const sl_problem *p, int layers, int rank, double inner) {
    double work = 0;
    int count = 0;
    for (int stage = 0; stage < p->stages; stage++) {
        if (sl_problem_rank(p, stage) != rank)
            continue;
        if (p->stages <= 2 || stage == 0 || stage == p->stages - 1)
            return 1;
        work += stage_work(p, stage);
        count += layers_of(p, layers, stage);
    }
    double slower = inner > 0 ? work / count / inner : 1;
    return slower > 1.05 ? 1 / slower : 1;
}

static sl_status check_profile(const sl_problem *p, int layers) {
    if (layers < p->stages)
        return sl_error(SL_EINVAL, "%d layers are fewer than the %d stages", layers, p->stages);
    if (p->placement == SL_BIDIRECTIONAL || p->layers)
        return sl_error(SL_EINVAL, p->layers ? "the problem has layers already"
                                             : "two pipelines in opposite directions are not cut");
    for (int stage = 0; stage < p->stages; stage++)
        if (p->recompute[stage])
            return sl_error(SL_EINVAL, "a stage recomputes, and what its layers keep is not known");
    return SL_OK;
}

sl_status sl_problem_of_layers(const sl_problem *p, int layers, sl_problem *out) {
    double inner;
    *out = (sl_problem){0};
    SL_TRY(check_profile(p, layers));
    SL_TRY(inner_work(p, layers, &inner));
    double head = extra_share(p, layers, p->stages - 1, inner), embedding = extra_share(p, layers, 0, inner);
    int count = layers + (embedding > 0) + (head > 0), layer = 0;
    SL_TRY(sl_problem_copy(p, out));
    SL_TRY(sl_layers_make(count, p->ranks, p->stages, &out->layers));
    SL_TRY(sl_layers_add_collectives(out->layers));
    sl_layers *l = out->layers;
    for (int rank = 0; rank < p->ranks; rank++)
        l->speed[rank] = rank_speed(p, layers, rank, inner);
    for (int stage = 0; stage < p->stages; stage++) {
        double speed = l->speed[sl_problem_rank(p, stage)], before = stage == 0 ? embedding : 0,
               after = stage == p->stages - 1 ? head : 0;
        int mine = layers_of(p, layers, stage);
        l->first[stage] = layer;
        if (before > 0)
            fill_layer(p, stage, before, speed, layer++, l);
        for (int i = 0; i < mine; i++)
            fill_layer(p, stage, (1 - before - after) / mine, speed, layer++, l);
        if (after > 0)
            fill_layer(p, stage, after, speed, layer++, l);
    }
    l->first[p->stages] = count;
    memset(out->saved, 0, (size_t)p->stages * sizeof *out->saved); /* of whole stages only */
    if (!out->fixed)
        SL_TRY(sl_alloc(&out->fixed, (size_t)p->ranks, sizeof *out->fixed));
    if (p->limit) {
        SL_TRY(sl_alloc(&l->memory, (size_t)p->ranks, sizeof *l->memory));
        for (int rank = 0; rank < p->ranks; rank++)
            l->memory[rank] = p->limit[rank] + sl_problem_fixed(p, rank);
    }
    sl_problem_cut(out, l->first);
    return SL_OK;
}

/* ---- over other ranks ---- */

static sl_link slowest_link(const sl_problem *p) {
    sl_link slowest = {0};
    for (int from = 0; from < p->ranks; from++)
        for (int to = 0; to < p->ranks; to++) {
            const sl_link *link = &p->link[from * p->ranks + to];
            slowest.latency = sl_later(slowest.latency, link->latency);
            slowest.transfer = sl_later(slowest.transfer, link->transfer);
            slowest.bytes = fmax(slowest.bytes, link->bytes);
        }
    return slowest;
}

/* (d - 1) / d of the bytes cross a ring's slowest link, once or twice. */
static double ring_share(int replicas) {
    return (replicas - 1.0) / replicas;
}

static sl_status copy_layers(const sl_problem *layered, double grown, sl_problem *sized) {
    const sl_layers *from = layered->layers;
    double slowest = 1;
    SL_TRY(sl_layers_make(from->count, sized->ranks, sized->stages, &sized->layers));
    SL_TRY(sl_layers_add_collectives(sized->layers));
    sl_layers *l = sized->layers;
    size_t count = (size_t)from->count;
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        memcpy(l->time[kind], from->time[kind], count * sizeof **l->time);
        memcpy(l->delta[kind], from->delta[kind], count * sizeof **l->delta);
    }
    memcpy(l->early, from->early, count * sizeof *l->early);
    memcpy(l->weights, from->weights, count * sizeof *l->weights);
    for (int rank = 0; rank < layered->ranks; rank++)
        slowest = fmin(slowest, from->speed[rank]);
    for (int rank = 0; rank < sized->ranks; rank++)
        l->speed[rank] = slowest;
    for (int layer = 0; layer < from->count; layer++) {
        l->reduce[layer] = (sl_time)((double)from->reduce[layer] * grown);
        l->gather[layer] = (sl_time)((double)from->gather[layer] * grown);
    }
    for (int stage = 0; stage <= sized->stages; stage++)
        l->first[stage] = (int)((int64_t)from->count * stage / sized->stages);
    return SL_OK;
}

sl_status sl_layers_over_ranks(const sl_problem *layered, int before, int ranks, int replicas,
                               sl_problem *sized) {
    *sized = (sl_problem){0};
    if (before == 1 && replicas > 1)
        return sl_error(SL_ENONE, "one replica does not say how long sums over several take");
    int microbatches = (int)((int64_t)layered->microbatches * before / replicas);
    if ((int64_t)microbatches * ranks * 2 * 3 > SL_MAX_OPS || microbatches > SL_MAX_MICROBATCHES ||
        ranks > SL_MAX_RANKS)
        return sl_error(SL_ENONE, "%d microbatches on %d ranks are too many ops", microbatches, ranks);
    SL_TRY(sl_problem_make(ranks, ranks, microbatches, sized));
    sized->objective = layered->objective;
    sized->synchronization = layered->synchronization;
    sized->communication = layered->communication;
    sized->queue = layered->queue;
    sized->communicators = layered->communicators;
    sized->overhead_op = layered->overhead_op;
    sized->overhead_message = layered->overhead_message;
    SL_TRY(copy_layers(layered, before > 1 ? ring_share(replicas) / ring_share(before) : 0, sized));
    SL_TRY(sl_alloc(&sized->fixed, (size_t)ranks, sizeof *sized->fixed));
    if (layered->limit) {
        SL_TRY(sl_alloc(&sized->limit, (size_t)ranks, sizeof *sized->limit));
        SL_TRY(sl_alloc(&sized->layers->memory, (size_t)ranks, sizeof *sized->layers->memory));
        double least = INFINITY;
        for (int rank = 0; rank < layered->ranks; rank++)
            least = fmin(least, layered->layers->memory[rank]);
        for (int rank = 0; rank < ranks; rank++)
            sized->layers->memory[rank] = least;
    }
    sl_link link = slowest_link(layered);
    for (int rank = 0; rank + 1 < ranks; rank++)
        sized->link[rank * ranks + rank + 1] = sized->link[(rank + 1) * ranks + rank] = link;
    sl_problem_cut(sized, sized->layers->first);
    return SL_OK;
}
