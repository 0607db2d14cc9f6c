/* A copy of the weights and moments of a rank's stages, full tensors, as they are between two iterations, in
 * memory that is taken and touched once when the run opens, laid out as the files of a checkpoint: from it
 * the files are written while training goes on. Replica 0 and of it the first tensor rank have one; the
 * others give what they hold. */
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

/** Takes the memory, where this rank writes. Free with sl_snapshot_free, also on error. SL_ENOMEM. */
sl_status sl_snapshot_make(sl_binding *binding, sl_snapshot *snapshot);
void sl_snapshot_free(sl_snapshot *snapshot);

/** Copies the weights and moments of now. Collective. SL_ENOMEM, SL_EPEER. */
sl_status sl_snapshot_take(sl_snapshot *snapshot, sl_binding *binding);
