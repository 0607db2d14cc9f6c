/* The inside of a stage, shared by the files of its three computations. */
#pragma once

#include "plan/pipeline/problem.h"
#include "run/model/products.h"
#include "run/model/transformer.h"

/* The unit in which ops are cut into parts: a block's work up to its first residual sum, or from there. */
typedef enum sl_half { SL_HALF_ATTENTION, SL_HALF_MLP } sl_half;

typedef struct sl_kept {
    float *forward, *backward; /* blocks of the arena, or of the host while `away`; NULL if not held */
    int away;
    int parts;          /* parts per op of this microbatch */
    int done[SL_W + 1]; /* parts of its F, I and W that have run */
    double loss;        /* sum over its tokens; written by the device */
} sl_kept;

struct sl_model_stage {
    sl_model_config config; /* complete */
    const sl_architecture *form;
    sl_layout layout;
    sl_device *device;
    sl_arena *arena, *host; /* host: NULL: nothing moves */
    int first;              /* its first block in the model */

    sl_parameter *parameter;
    int parameters, block_base; /* block_base: index of the first block's first parameter */
    sl_parameter head;          /* last stage: the tied head's own, or a copy of the parameter */
    float *memory;              /* weights, gradients, moments */
    /* First stage that is also the last, tied: [tokens of this slice] 1 if a row of the embedding's
     * accumulator is not 0; and whether the two accumulators are swapped (sl_model_add_own_head). */
    unsigned char *touched;
    int joined;
    float *scratch;
    void *product_scratch;
    unsigned char *packed;       /* weights in the products' format; NULL: unpacked */
    int stale;                   /* weights may have changed since they were packed */
    unsigned char *packed_early; /* [parameters] since the last sl_model_weights_changed */
    sl_products product;
    sl_attention_shape attention;

    sl_kept *kept;
    size_t kept_capacity;
    size_t forward_bytes, backward_bytes; /* of the arena blocks that F and I take */
    int microbatches;
    int next_weight[SL_MAX_PARTS]; /* this part of W has run for the microbatches below */
    float loss_scale;              /* 1 / tokens of the whole batch */
};

/** Parameter `index` of the form of the stage's block `b`; NULL for -1. */
static inline const sl_parameter *sl_stage_block(const sl_model_stage *s, int b, int index) {
    return index < 0 ? NULL : &s->parameter[s->block_base + b * s->form->block_parameters + index];
}

/** Parameter 0 (gain) or 1 (bias, NULL if there is none) of the final norm. */
static inline const sl_parameter *sl_stage_final(const sl_model_stage *s, int index) {
    return index && !s->form->final[1].name
               ? NULL
               : &s->parameter[s->block_base + s->layout.blocks * s->form->block_parameters + index];
}

static inline sl_status sl_stage_multiply(const sl_model_stage *s, sl_matmul *product, const float *a,
                                          const void *b, const float *bias, float *c) {
    return s->device->matmul(s->device, product, a, b, bias, c, s->product_scratch);
}

/** A weight in the format for F (SL_PRODUCT_FORWARD) or I (SL_PRODUCT_INPUT), of linear layer i (or
 * SL_LINEAR_OUT) of half of block b, and the head's. */
const void *sl_stage_weight(const sl_model_stage *s, int b, sl_half half, int i, sl_product_op op);
const void *sl_stage_head_weight(const sl_model_stage *s, sl_product_op op);
/** Packs the weights if they may have changed. */
sl_status sl_stage_refresh(sl_model_stage *s);

/** Sums over tensor ranks. */
static inline sl_status sl_stage_sum(const sl_model_stage *s, float *values, size_t count) {
    return s->config.tensor.size > 1 ? s->config.tensor.sum(s->config.tensor.object, values, count) : SL_OK;
}

/** Swaps the embedding's and the tied head's accumulators (sl_model_add_own_head). */
void sl_stage_swap_accumulators(sl_model_stage *s);

/** Frees the data of a microbatch. */
void sl_stage_drop(sl_model_stage *s, sl_kept *kept);

/* The stage's normalization (model_norm.c); `bias` NULL if it has none. */
void sl_stage_norm(const sl_model_stage *s, const sl_parameter *gain, const sl_parameter *bias,
                   const float *x, float *normal, float *scale, float *y);
/** Its last step again. */
void sl_stage_norm_apply(const sl_model_stage *s, const sl_parameter *gain, const sl_parameter *bias,
                         const float *normal, float *y);
/** dx = residual (NULL: 0) + gradient through it. */
void sl_stage_norm_input_grad(const sl_model_stage *s, const sl_parameter *gain, const float *dy,
                              const float *normal, const float *scale, const float *residual, float *dx);
void sl_stage_norm_weight_grad(const sl_model_stage *s, const sl_parameter *gain, const sl_parameter *bias,
                               const float *dy, const float *normal);

/** Half of F of block b: the residual stream in scratch.x, in place; `kept` is F's data of the block. */
sl_status sl_block_forward(sl_model_stage *s, int b, sl_half half, float *kept);
/** Recomputes all that F keeps of block b, from the residual stream in scratch.x; leaves out results that
 * only the next block needs. */
sl_status sl_block_again(sl_model_stage *s, int b, float *kept);
/** Half of I of block b, the MLP first: the gradient of its output is in added.out; that of its input goes to
 * input_grad [n][w] with the attention half. */
sl_status sl_block_input_grad(sl_model_stage *s, int b, sl_half half, float *kept, float *added,
                              float *input_grad);
/** W of the parameters of that half, after its I. `first`: for the first microbatch, whose gradients of
 * matrices are written and not added. */
sl_status sl_block_weight_grad(sl_model_stage *s, int b, sl_half half, int first, float *kept, float *added);

/* The two ends of the model (ends.c): embedding on the first stage, final norm, head and loss on the last. */
/* Tokens and targets are the host's. */
sl_status sl_stage_embed(sl_model_stage *s, const uint16_t *tokens, float *kept);
void sl_stage_embed_weight_grad(sl_model_stage *s, const float *kept, const float *added);
/** From the residual stream in scratch.x; the logits become their gradient. *sum: of the tokens' losses, once
 * the device has finished. */
sl_status sl_stage_loss(sl_model_stage *s, const uint16_t *targets, float *kept, double *sum);
/** Gradient of the final norm's input to `out`. */
sl_status sl_stage_loss_input_grad(sl_model_stage *s, const float *kept, float *added, float *out);
sl_status sl_stage_loss_weight_grad(sl_model_stage *s, int first, const float *kept, const float *added);
