/* What the engine runs: the ops of one stage behind a table of functions, so that the engine knows nothing of
 * models and a test can bind empty paced ops. */
#ifndef SL_RUN_ENGINE_STAGE_H
#define SL_RUN_ENGINE_STAGE_H

#include "base/status.h"
#include <stddef.h>

typedef struct sl_stage {
    void *object;
    size_t input_bytes;  /* activation that F takes (and gradient that I gives); 0 on the first stage */
    size_t output_bytes; /* activation that F gives (and gradient that I takes); 0 on the last stage */
    /** F: input and output may be NULL where their bytes are 0. Keeps what I and W need. */
    sl_status (*forward)(void *object, int microbatch, const void *input, void *output);
    /** I: gradient of the output in, gradient of the input out. */
    sl_status (*input_grad)(void *object, int microbatch, const void *output_grad, void *input_grad);
    /** W: adds to the weights' gradients and frees what F kept. Called in ascending microbatches. */
    sl_status (*weight_grad)(void *object, int microbatch);
} sl_stage;

#endif
