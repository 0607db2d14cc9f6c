#include "run/model/stage.h"

#include <math.h>
#include <string.h>

/* One head at a time; the weights p of a head are made from its q and k, in F and again in I. */

static float factor(const sl_model_config *c) {
    return 1.0f / sqrtf((float)(c->width / c->heads));
}

static sl_status weigh(sl_model_stage *s, const float *q, const float *k, float *p) {
    SL_TRY(sl_stage_multiply(s, SL_PRODUCT_SCORES, q, k, NULL, p));
    s->device->softmax_causal(s->config.context, factor(&s->config), p);
    return SL_OK;
}

sl_status sl_attention_forward(sl_model_stage *s, const float *qkv, float *out) {
    const sl_model_config *c = &s->config;
    const size_t size = (size_t)c->context * (size_t)(c->width / c->heads); /* of one head */
    const size_t all = size * (size_t)c->batch * (size_t)c->heads;
    float *p = s->scratch + s->layout.scores, *split = s->scratch + s->layout.split;
    for (size_t at = 0; at < all; at += size) {
        SL_TRY(weigh(s, qkv + at, qkv + all + at, p));
        SL_TRY(sl_stage_multiply(s, SL_PRODUCT_MIX, p, qkv + 2 * all + at, NULL, split + at));
    }
    s->device->join_heads(1, c->batch, c->heads, c->context, c->width / c->heads, split, out);
    return SL_OK;
}

/* With y = p v: dp = dy v', dv = p' dy, ds = softmax's gradient, dq = ds k, dk = ds' q. Each gradient
 * replaces its operand as soon as that has been used; only q must be saved aside. */
static sl_status head_input_grad(sl_model_stage *s, float *q, float *k, float *v, const float *dy) {
    const sl_model_config *c = &s->config;
    const size_t square = (size_t)c->context * (size_t)c->context;
    const size_t size = (size_t)c->context * (size_t)(c->width / c->heads);
    float *p = s->scratch + s->layout.scores, *dp = p + square, *old_q = s->scratch + s->layout.mixed;
    SL_TRY(weigh(s, q, k, p));
    SL_TRY(sl_stage_multiply(s, SL_PRODUCT_SCORES, dy, v, NULL, dp));
    SL_TRY(sl_stage_multiply(s, SL_PRODUCT_MIX_TRANSPOSED, p, dy, NULL, v));
    s->device->softmax_causal_grad(c->context, factor(c), p, dp);
    memcpy(old_q, q, size * sizeof *q);
    SL_TRY(sl_stage_multiply(s, SL_PRODUCT_MIX, dp, k, NULL, q));
    return sl_stage_multiply(s, SL_PRODUCT_MIX_TRANSPOSED, dp, old_q, NULL, k);
}

sl_status sl_attention_input_grad(sl_model_stage *s, float *qkv, const float *out_grad) {
    const sl_model_config *c = &s->config;
    const int d = c->width / c->heads;
    const size_t size = (size_t)c->context * (size_t)d, all = size * (size_t)c->batch * (size_t)c->heads;
    float *split = s->scratch + s->layout.split, *wide = s->scratch + s->layout.wide;
    s->device->split_heads(1, c->batch, c->heads, c->context, d, out_grad, split);
    for (size_t at = 0; at < all; at += size)
        SL_TRY(head_input_grad(s, qkv + at, qkv + all + at, qkv + 2 * all + at, split + at));
    s->device->join_heads(3, c->batch, c->heads, c->context, d, qkv, wide);
    memcpy(qkv, wide, 3 * all * sizeof *qkv);
    return SL_OK;
}
