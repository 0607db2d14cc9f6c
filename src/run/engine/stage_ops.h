/* What the engine runs: the ops of one stage behind a table of functions, so that the engine knows nothing of
 * models and a test can bind empty paced ops. A rank that holds several stages has a table for each. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "plan/pipeline/op.h"
#include <stddef.h>

typedef struct sl_stage {
    void *object;
    size_t input_bytes;  /* activation that F takes (and gradient that I gives); 0 on the first stage */
    size_t output_bytes; /* activation that F gives (and gradient that I takes); 0 on the last stage */
    /** Before the stage's first F of an iteration, on the rank's time: the update of its weights. Recorded as
     * SL_RECORD_OPTIMIZER. Stages of a rank come in the order in which the program first runs them. May be
     * NULL. */
    sl_status (*prepare)(void *object);
    /* The op says microbatch and part (op->part of `parts`; parts of an op come in ascending order, its
     * result is complete after the last). A B comes as I and then W. */
    /** F: input and output may be NULL where their bytes are 0. Keeps what I and W need. */
    sl_status (*forward)(void *object, const sl_op *op, int parts, const void *input, void *output);
    /** I: gradient of the output in, gradient of the input out. */
    sl_status (*input_grad)(void *object, const sl_op *op, int parts, const void *output_grad,
                            void *input_grad);
    /** W: adds to the weights' gradients and frees what F kept. Called in ascending microbatches. */
    sl_status (*weight_grad)(void *object, const sl_op *op, int parts);
    /** A W or B (a part of one) has ended, or will at `end`, which its pace may put ahead of the arithmetic's
     * end: its gradients are there. May be NULL. */
    sl_status (*weights_added)(void *object, const sl_op *op, int parts, sl_time end);
    /** Moves what is kept of a microbatch, between F and I or between I and W, to host memory / brings it
     * back; called on the engine's copy thread, never together with an op of the same stage and microbatch,
     * but beside ops of others. NULL: this stage cannot. */
    sl_status (*offload)(void *object, int microbatch);
    sl_status (*fetch)(void *object, int microbatch);
} sl_stage;
