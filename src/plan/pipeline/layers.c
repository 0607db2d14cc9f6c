#include "plan/pipeline/layers.h"
#include "base/memory.h"

#include <string.h>

sl_status sl_layers_make(int count, int ranks, int stages, sl_layers **layers) {
    sl_layers *l;
    sl_status status;
    SL_TRY(sl_alloc(layers, 1, sizeof **layers));
    l = *layers;
    l->count = count;
    SL_TRY_GOTO(err_free, status, sl_alloc(&l->weights, (size_t)count, sizeof *l->weights));
    SL_TRY_GOTO(err_free, status, sl_alloc(&l->early, (size_t)count, sizeof *l->early));
    SL_TRY_GOTO(err_free, status, sl_alloc(&l->input, (size_t)count, sizeof *l->input));
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

static sl_status copy_optional(const sl_layers *layers, size_t ranks, sl_layers *copy) {
    if (layers->memory) {
        SL_TRY(sl_alloc(&copy->memory, ranks, sizeof *layers->memory));
        memcpy(copy->memory, layers->memory, ranks * sizeof *layers->memory);
    }
    if (layers->hosted) {
        SL_TRY(sl_alloc(&copy->hosted, (size_t)layers->count, sizeof *layers->hosted));
        memcpy(copy->hosted, layers->hosted, (size_t)layers->count * sizeof *layers->hosted);
    }
    if (layers->gather && layers->reduce) {
        SL_TRY(sl_layers_add_collectives(copy));
        memcpy(copy->gather, layers->gather, (size_t)layers->count * sizeof *layers->gather);
        memcpy(copy->reduce, layers->reduce, (size_t)layers->count * sizeof *layers->reduce);
    }
    if (layers->letter) {
        SL_TRY(sl_alloc(&copy->letter, (size_t)layers->count + 1, 1));
        memcpy(copy->letter, layers->letter, (size_t)layers->count + 1);
    }
    return SL_OK;
}

sl_status sl_layers_copy(const sl_layers *layers, int ranks, int stages, sl_layers **copy) {
    size_t count = (size_t)layers->count;
    SL_TRY(sl_layers_make(layers->count, ranks, stages, copy));
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        memcpy((*copy)->time[kind], layers->time[kind], count * sizeof **layers->time);
        memcpy((*copy)->delta[kind], layers->delta[kind], count * sizeof **layers->delta);
    }
    memcpy((*copy)->weights, layers->weights, count * sizeof *layers->weights);
    memcpy((*copy)->early, layers->early, count * sizeof *layers->early);
    memcpy((*copy)->input, layers->input, count * sizeof *layers->input);
    (*copy)->recompute = layers->recompute;
    (*copy)->host_memory = layers->host_memory;
    (*copy)->host_pace = layers->host_pace;
    memcpy((*copy)->speed, layers->speed, (size_t)ranks * sizeof *layers->speed);
    memcpy((*copy)->first, layers->first, ((size_t)stages + 1) * sizeof *layers->first);
    sl_status status = copy_optional(layers, (size_t)ranks, *copy);
    if (status != SL_OK) {
        sl_layers_free(*copy);
        *copy = NULL;
    }
    return status;
}

sl_status sl_layers_add_collectives(sl_layers *l) {
    if (!l->gather)
        SL_TRY(sl_alloc(&l->gather, (size_t)l->count, sizeof *l->gather));
    return l->reduce ? SL_OK : sl_alloc(&l->reduce, (size_t)l->count, sizeof *l->reduce);
}

void sl_layers_free(sl_layers *layers) {
    if (!layers)
        return;
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        SL_FREE(layers->time[kind], layers->delta[kind]);
    }
    SL_FREE(layers->weights, layers->early, layers->input, layers->gather, layers->reduce, layers->speed,
            layers->memory, layers->hosted, layers->first, layers->letter, layers);
}
