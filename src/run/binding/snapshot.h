/* A copy of the weights and moments of a rank's stages, full tensors, as of the time between two iterations.
 * Its memory is allocated and touched once when the run opens, laid out like the files of a checkpoint, which
 * are written from it while training continues. Only the first tensor rank of a stage's first holder has one;
 * the others send their data. */
#pragma once

#include "run/binding/binding.h"
#include "run/checkpoint/safetensors.h"

typedef struct sl_snapshot_stage {
    int stage, parameters;
    sl_tensor_source *weight; /* [parameters] */
    sl_tensor_source *moment; /* [2 * parameters] NAME.moment1, NAME.moment2, ... */
} sl_snapshot_stage;

typedef struct sl_snapshot {
    sl_snapshot_stage *stage; /* [stages] those that this rank holds, ascending */
    int stages;
    float *memory;
    size_t bytes; /* of memory */
} sl_snapshot;

/** Allocates the memory, if this rank writes. Free with sl_snapshot_free, also on error. SL_ENOMEM. */
sl_status sl_snapshot_make(sl_binding *binding, sl_snapshot *snapshot);
void sl_snapshot_free(sl_snapshot *snapshot);

/** Copies the current weights and moments. Collective. SL_ENOMEM, SL_EPEER. */
sl_status sl_snapshot_take(sl_snapshot *snapshot, sl_binding *binding);
