#include "plan/pipeline/layers.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

sl_status sl_layers_make(int count, int ranks, int stages, sl_layers **layers) {
    sl_layers *l;
    sl_status status;
    SL_TRY(sl_alloc(layers, 1, sizeof **layers));
    l = *layers;
    l->count = count;
    SL_TRY_GOTO(err_free, status, sl_alloc(&l->weights, (size_t)count, sizeof *l->weights));
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        SL_TRY_GOTO(err_free, status, sl_alloc(&l->time[kind], (size_t)count, sizeof **l->time));
        SL_TRY_GOTO(err_free, status, sl_alloc(&l->delta[kind], (size_t)count, sizeof **l->delta));
    }
    SL_TRY_GOTO(err_free, status, sl_alloc(&l->speed, (size_t)ranks, sizeof *l->speed));
    SL_TRY_GOTO(err_free, status, sl_alloc(&l->first, (size_t)stages + 1, sizeof *l->first));
    for (int rank = 0; rank < ranks; rank++)
        l->speed[rank] = 1;
    return SL_OK;
err_free:
    sl_layers_free(l);
    *layers = NULL;
    return status;
}

sl_status sl_layers_copy(const sl_layers *layers, int ranks, int stages, sl_layers **copy) {
    size_t count = (size_t)layers->count;
    SL_TRY(sl_layers_make(layers->count, ranks, stages, copy));
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        memcpy((*copy)->time[kind], layers->time[kind], count * sizeof **layers->time);
        memcpy((*copy)->delta[kind], layers->delta[kind], count * sizeof **layers->delta);
    }
    memcpy((*copy)->weights, layers->weights, count * sizeof *layers->weights);
    memcpy((*copy)->speed, layers->speed, (size_t)ranks * sizeof *layers->speed);
    memcpy((*copy)->first, layers->first, ((size_t)stages + 1) * sizeof *layers->first);
    if (!layers->memory)
        return SL_OK;
    sl_status status = sl_alloc(&(*copy)->memory, (size_t)ranks, sizeof *layers->memory);
    if (status == SL_OK)
        memcpy((*copy)->memory, layers->memory, (size_t)ranks * sizeof *layers->memory);
    else {
        sl_layers_free(*copy);
        *copy = NULL;
    }
    return status;
}

void sl_layers_free(sl_layers *layers) {
    if (!layers)
        return;
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        SL_FREE(layers->time[kind], layers->delta[kind]);
    }
    SL_FREE(layers->weights, layers->speed, layers->memory, layers->first, layers);
}

/* One stage from its layers; returns its weights. */
static double fill_stage(sl_problem *p, int stage, int begin, int end) {
    const sl_layers *l = p->layers;
    double speed = l->speed[sl_problem_rank(p, stage)], weights = 0;
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        sl_time time = 0;
        p->delta[kind][stage] = 0;
        for (int layer = begin; layer < end; layer++) {
            time += l->time[kind][layer];
            p->delta[kind][stage] += l->delta[kind][layer];
        }
        p->time[kind][stage] = (sl_time)llround((double)time / speed);
    }
    for (int layer = begin; layer < end; layer++)
        weights += l->weights[layer];
    return weights;
}

void sl_problem_cut(sl_problem *p, const int *first) {
    sl_layers *l = p->layers;
    memmove(l->first, first, ((size_t)p->stages + 1) * sizeof *first);
    for (int rank = 0; p->limit && rank < p->ranks; rank++)
        p->limit[rank] = l->memory[rank];
    for (int stage = 0; stage < p->stages; stage++) {
        int at = p->placement == SL_BIDIRECTIONAL ? stage % p->ranks : stage;
        double weights = fill_stage(p, stage, first[at], first[at + 1]);
        if (p->limit) {
            double *left = &p->limit[sl_problem_rank(p, stage)];
            *left = *left > weights ? *left - weights : 0;
        }
    }
}
