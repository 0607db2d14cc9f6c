/* The matrix products of the model: three per linear layer and for the head. A stage prepares all of them
 * once, so that no op has to create one. */
#pragma once

#include "run/model/layout.h"

/* The products of a linear layer. */
typedef enum sl_product_op {
    SL_PRODUCT_FORWARD, /* outputs = inputs * weight (+ bias) */
    SL_PRODUCT_INPUT,   /* gradient of inputs = gradient of outputs * weight' */
    SL_PRODUCT_FIRST,   /* accumulator = inputs' * gradient of outputs, in the weight's orientation: for the
                           first microbatch, so that nothing needs to be cleared */
    SL_PRODUCT_WEIGHT,  /* accumulator += the same */
    SL_PRODUCT_OPS
} sl_product_op;

#define SL_LINEARS (SL_MAX_IN + 1) /* of a half: the incoming ones, then the outgoing one */
#define SL_LINEAR_OUT SL_MAX_IN

typedef struct sl_products {
    sl_matmul *half[2][SL_LINEARS][SL_PRODUCT_OPS];
    sl_matmul *head[SL_PRODUCT_OPS]; /* NULL except on the last stage */
    size_t scratch_bytes;            /* of the largest */
    /* Packed weights, bytes: offsets of a block's from its start, size of a block, offset of the head's;
     * [SL_PRODUCT_FORWARD] and [SL_PRODUCT_INPUT]. All 0 if weights are not packed. */
    size_t packed_at[2][SL_LINEARS][2], block_packed, head_packed_at[2], packed_bytes;
} sl_products;

/** Prepares the products of a stage with that many blocks; the config is complete. SL_EINVAL, SL_ESYS,
 * SL_ENOMEM. */
sl_status sl_products_prepare(const sl_model_config *config, sl_device *device, int blocks, int is_last,
                              sl_products *products);
