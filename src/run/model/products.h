/* The matrix products of the model, by name: a stage prepares all of them once, so that no op pays for making
 * one. */
#ifndef SL_RUN_MODEL_PRODUCTS_H
#define SL_RUN_MODEL_PRODUCTS_H

#include "run/model/model.h"

typedef enum sl_product {
    /* F */
    SL_PRODUCT_ATTN,      /* qkv = ln_1 * c_attn + bias */
    SL_PRODUCT_ATTN_PROJ, /* x += heads * c_proj + bias */
    SL_PRODUCT_FC,        /* hidden = ln_2 * c_fc + bias */
    SL_PRODUCT_FC_PROJ,   /* x += gelu(hidden) * c_proj + bias */
    SL_PRODUCT_SCORES,    /* one head: s = q * k' */
    SL_PRODUCT_MIX,       /* one head: y = p * v, and dq = ds * k */
    /* I */
    SL_PRODUCT_ATTN_GRAD,
    SL_PRODUCT_ATTN_PROJ_GRAD,
    SL_PRODUCT_FC_GRAD,
    SL_PRODUCT_FC_PROJ_GRAD,
    SL_PRODUCT_MIX_TRANSPOSED, /* one head: dv = p' * dy, and dk = ds' * q */
    /* W: onto the accumulator */
    SL_PRODUCT_ATTN_WEIGHT,
    SL_PRODUCT_ATTN_PROJ_WEIGHT,
    SL_PRODUCT_FC_WEIGHT,
    SL_PRODUCT_FC_PROJ_WEIGHT,
    /* the last stage */
    SL_PRODUCT_HEAD,
    SL_PRODUCT_HEAD_GRAD,
    SL_PRODUCT_HEAD_WEIGHT,
    SL_PRODUCTS
} sl_product;

/** Its shape; the scores' gradient dp = dy * v' has that of SCORES. */
sl_matmul_shape sl_product_shape(const sl_model_config *config, sl_product product);

#endif
