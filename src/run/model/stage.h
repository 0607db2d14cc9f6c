/* A stage from inside: shared by the files of its three computations. */
#ifndef SL_RUN_MODEL_STAGE_H
#define SL_RUN_MODEL_STAGE_H

#include "plan/pipeline/problem.h"
#include "run/model/layout.h"
#include "run/model/products.h"

/* The unit in which ops are cut into parts: what a block does up to its first residual sum, or from there. */
typedef enum sl_half { SL_HALF_ATTENTION, SL_HALF_MLP } sl_half;

typedef struct sl_kept {
    float *forward, *backward; /* blocks of the arena, or of the host while `away`; NULL when not held */
    int away;
    int parts;          /* that the ops of this microbatch are cut into */
    int done[SL_W + 1]; /* parts of its F, I and W that have run */
    double loss;
} sl_kept;

struct sl_model_stage {
    sl_model_config config;
    sl_layout layout;
    sl_device *device;
    sl_arena *arena, *host; /* host: NULL: nothing moves */
    int first;              /* its first block in the model */

    sl_parameter *parameter;
    int parameters, block_base; /* block_base: index of the first block's first parameter */
    sl_parameter head;
    float *memory;   /* weights, gradients, moments */
    float *gradient; /* all gradients, the head's too: [gradients] floats */
    size_t gradients;
    float *scratch;
    void *product_scratch;
    sl_matmul *product[SL_PRODUCTS];

    sl_kept *kept;
    size_t kept_capacity;
    size_t forward_bytes, backward_bytes; /* of the blocks of the arena that F and I take */
    int microbatches;
    int next_weight[SL_MAX_PARTS]; /* this part of W has run for the microbatches below */
    float loss_scale;              /* 1 / tokens of the whole batch */
};

/** Parameter `index` (SL_LN_1_WEIGHT...) of the stage's block `b`. */
static inline const sl_parameter *sl_stage_block(const sl_model_stage *s, int b, int index) {
    return &s->parameter[s->block_base + b * SL_BLOCK_PARAMETERS + index];
}

static inline sl_status sl_stage_multiply(const sl_model_stage *s, sl_product product, const float *a,
                                          const float *b, const float *bias, float *c) {
    return s->device->matmul(s->device, s->product[product], a, b, bias, c, s->product_scratch);
}

/** Gives back what is held of a microbatch. */
void sl_stage_drop(sl_model_stage *s, sl_kept *kept);

/** Half of F of block b: the residual stream in scratch.x, in place; `kept` is the block's part of what F
 * keeps. */
sl_status sl_block_forward(sl_model_stage *s, int b, sl_half half, float *kept);
/** Half of I of block b, the MLP first: the gradient of its output lies in added.out; that of its input goes
 * to input_grad [n][w] with the attention half. */
sl_status sl_block_input_grad(sl_model_stage *s, int b, sl_half half, float *kept, float *added,
                              float *input_grad);
/** W of the parameters of that half; its I has run. */
sl_status sl_block_weight_grad(sl_model_stage *s, int b, sl_half half, const float *kept, const float *added);

/** qkv by heads -> heads' output [n][w] joined. */
sl_status sl_attention_forward(sl_model_stage *s, const float *qkv, float *out);
/** In place: qkv by heads becomes the gradient of c_attn's output [n][3w]; out_grad [n][w]. */
sl_status sl_attention_input_grad(sl_model_stage *s, float *qkv, const float *out_grad);

#endif
