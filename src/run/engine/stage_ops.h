/* The ops of one stage as a table of functions, so that the engine is independent of models and a test can
 * bind empty paced ops. A rank that holds several stages has a table for each. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "plan/pipeline/op.h"
#include <stddef.h>

typedef struct sl_stage {
    void *object;
    size_t input_bytes;  /* activation that F takes (and gradient that I gives); 0 on the first stage */
    size_t output_bytes; /* activation that F gives (and gradient that I takes); 0 on the last stage */
    /** Called before the stage's first F of an iteration, on the rank's time: updates its weights. Recorded
     * as SL_RECORD_OPTIMIZER. Stages of a rank come in the order in which the program first runs them. May
     * be NULL. */
    sl_status (*prepare)(void *object);
    /* The op gives microbatch and part (op->part of `parts`; parts of an op come in ascending order, its
     * result is complete after the last). A B comes as I and then W. */
    /** F: input and output may be NULL if their bytes are 0. Keeps the data that I and W need. */
    sl_status (*forward)(void *object, const sl_op *op, int parts, const void *input, void *output);
    /** I: gradient of the output in, gradient of the input out. */
    sl_status (*input_grad)(void *object, const sl_op *op, int parts, const void *output_grad,
                            void *input_grad);
    /** W: adds to the weights' gradients and frees F's data. Called in ascending microbatches. */
    sl_status (*weight_grad)(void *object, const sl_op *op, int parts);
    /** The functions above may return when their work is only queued: waits until all of it is done. Called
     * before the time of an op's end is taken and its results are used. May be NULL. */
    sl_status (*finish)(void *object);
    /** Marks the work queued so far with number 0 or 1, and waits until what was last marked with it is done:
     * its results are there, while later work goes on. NULL: nothing is worth queuing ahead of a wait, or ops
     * wait for other ranks, which may need the results of the block before. */
    sl_status (*mark)(void *object, int number);
    sl_status (*wait)(void *object, int number);
    /** A W or B (a part of one) has ended, or will at `end`, which its pace may set later than the end of the
     * arithmetic: its gradients are complete. May be NULL. */
    sl_status (*weights_added)(void *object, const sl_op *op, int parts, sl_time end);
    /** Offload moves the kept data of a microbatch to host memory, between F and I or between I and W; fetch
     * brings them back. Called on the engine's copy thread, never during an op of the same stage and
     * microbatch, but during ops of others. NULL: this stage cannot. */
    sl_status (*offload)(void *object, int microbatch);
    sl_status (*fetch)(void *object, int microbatch);
} sl_stage;
