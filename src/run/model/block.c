#include "run/model/stage.h"

#define WEIGHT(index) (sl_stage_block(s, b, index)->weight)
#define GRADIENT(index) (sl_stage_block(s, b, index)->gradient)

static sl_status attention_forward(sl_model_stage *s, int b, float *kept) {
    const sl_device *d = s->device;
    const sl_block_layout *l = &s->layout.block;
    const sl_model_config *c = &s->config;
    const int n = s->layout.rows, w = c->width;
    float *x = s->scratch + s->layout.x, *h = s->scratch + s->layout.h, *wide = s->scratch + s->layout.wide;
    d->layernorm(n, w, x, WEIGHT(SL_LN_1_WEIGHT), WEIGHT(SL_LN_1_BIAS), kept + l->normal1, kept + l->scale1,
                 h);
    SL_TRY(sl_stage_multiply(s, SL_PRODUCT_ATTN, h, WEIGHT(SL_ATTN_WEIGHT), WEIGHT(SL_ATTN_BIAS), wide));
    d->split_heads(3, c->batch, c->heads, c->context, w / c->heads, wide, kept + l->qkv);
    SL_TRY(sl_attention_forward(s, kept + l->qkv, kept + l->heads));
    return sl_stage_multiply(s, SL_PRODUCT_ATTN_PROJ, kept + l->heads, WEIGHT(SL_ATTN_PROJ_WEIGHT),
                             WEIGHT(SL_ATTN_PROJ_BIAS), x);
}

static sl_status mlp_forward(sl_model_stage *s, int b, float *kept) {
    const sl_device *d = s->device;
    const sl_block_layout *l = &s->layout.block;
    const int n = s->layout.rows, w = s->config.width;
    float *x = s->scratch + s->layout.x, *h = s->scratch + s->layout.h, *wide = s->scratch + s->layout.wide;
    d->layernorm(n, w, x, WEIGHT(SL_LN_2_WEIGHT), WEIGHT(SL_LN_2_BIAS), kept + l->normal2, kept + l->scale2,
                 h);
    SL_TRY(
        sl_stage_multiply(s, SL_PRODUCT_FC, h, WEIGHT(SL_FC_WEIGHT), WEIGHT(SL_FC_BIAS), kept + l->hidden));
    d->gelu((size_t)n * (size_t)w * 4, kept + l->hidden, wide);
    return sl_stage_multiply(s, SL_PRODUCT_FC_PROJ, wide, WEIGHT(SL_FC_PROJ_WEIGHT), WEIGHT(SL_FC_PROJ_BIAS),
                             x);
}

sl_status sl_block_forward(sl_model_stage *s, int b, sl_half half, float *kept) {
    return half == SL_HALF_ATTENTION ? attention_forward(s, b, kept) : mlp_forward(s, b, kept);
}

static sl_status mlp_input_grad(sl_model_stage *s, int b, float *kept, float *added) {
    const sl_device *d = s->device;
    const sl_block_layout *l = &s->layout.block;
    const int n = s->layout.rows, w = s->config.width;
    SL_TRY(sl_stage_multiply(s, SL_PRODUCT_FC_PROJ_GRAD, added + l->out, WEIGHT(SL_FC_PROJ_WEIGHT), NULL,
                             added + l->hidden_grad));
    d->gelu_input_grad((size_t)n * (size_t)w * 4, kept + l->hidden, added + l->hidden_grad);
    SL_TRY(sl_stage_multiply(s, SL_PRODUCT_FC_GRAD, added + l->hidden_grad, WEIGHT(SL_FC_WEIGHT), NULL,
                             added + l->norm2));
    d->layernorm_input_grad(n, w, added + l->norm2, WEIGHT(SL_LN_2_WEIGHT), kept + l->normal2,
                            kept + l->scale2, added + l->out, added + l->middle);
    return SL_OK;
}

static sl_status attention_input_grad(sl_model_stage *s, int b, float *kept, float *added,
                                      float *input_grad) {
    const sl_device *d = s->device;
    const sl_block_layout *l = &s->layout.block;
    const int n = s->layout.rows, w = s->config.width;
    float *h = s->scratch + s->layout.h;
    SL_TRY(sl_stage_multiply(s, SL_PRODUCT_ATTN_PROJ_GRAD, added + l->middle, WEIGHT(SL_ATTN_PROJ_WEIGHT),
                             NULL, h));
    SL_TRY(sl_attention_input_grad(s, kept + l->qkv, h));
    SL_TRY(sl_stage_multiply(s, SL_PRODUCT_ATTN_GRAD, kept + l->qkv, WEIGHT(SL_ATTN_WEIGHT), NULL,
                             added + l->norm1));
    d->layernorm_input_grad(n, w, added + l->norm1, WEIGHT(SL_LN_1_WEIGHT), kept + l->normal1,
                            kept + l->scale1, added + l->middle, input_grad);
    return SL_OK;
}

sl_status sl_block_input_grad(sl_model_stage *s, int b, sl_half half, float *kept, float *added,
                              float *input_grad) {
    return half == SL_HALF_ATTENTION ? attention_input_grad(s, b, kept, added, input_grad)
                                     : mlp_input_grad(s, b, kept, added);
}

/* A linear layer's two: its input, the gradient of its output. */
static sl_status linear(sl_model_stage *s, sl_product product, const float *input, const float *grad,
                        const sl_parameter *weight, const sl_parameter *bias) {
    SL_TRY(sl_stage_multiply(s, product, input, grad, NULL, weight->gradient));
    s->device->bias_grad(s->layout.rows, bias->columns, grad, s->scratch + s->layout.sums, bias->gradient);
    return SL_OK;
}

static sl_status mlp_weight_grad(sl_model_stage *s, int b, const float *kept, const float *added) {
    const sl_device *d = s->device;
    const sl_block_layout *l = &s->layout.block;
    const int n = s->layout.rows, w = s->config.width;
    float *h = s->scratch + s->layout.h, *sums = s->scratch + s->layout.sums;
    SL_TRY(linear(s, SL_PRODUCT_FC_PROJ_WEIGHT, kept + l->hidden, added + l->out,
                  sl_stage_block(s, b, SL_FC_PROJ_WEIGHT), sl_stage_block(s, b, SL_FC_PROJ_BIAS)));
    d->layernorm_apply(n, w, kept + l->normal2, WEIGHT(SL_LN_2_WEIGHT), WEIGHT(SL_LN_2_BIAS), h);
    SL_TRY(linear(s, SL_PRODUCT_FC_WEIGHT, h, added + l->hidden_grad, sl_stage_block(s, b, SL_FC_WEIGHT),
                  sl_stage_block(s, b, SL_FC_BIAS)));
    d->layernorm_weight_grad(n, w, added + l->norm2, kept + l->normal2, sums, GRADIENT(SL_LN_2_WEIGHT),
                             GRADIENT(SL_LN_2_BIAS));
    return SL_OK;
}

static sl_status attention_weight_grad(sl_model_stage *s, int b, const float *kept, const float *added) {
    const sl_device *d = s->device;
    const sl_block_layout *l = &s->layout.block;
    const int n = s->layout.rows, w = s->config.width;
    float *h = s->scratch + s->layout.h, *sums = s->scratch + s->layout.sums;
    SL_TRY(linear(s, SL_PRODUCT_ATTN_PROJ_WEIGHT, kept + l->heads, added + l->middle,
                  sl_stage_block(s, b, SL_ATTN_PROJ_WEIGHT), sl_stage_block(s, b, SL_ATTN_PROJ_BIAS)));
    d->layernorm_apply(n, w, kept + l->normal1, WEIGHT(SL_LN_1_WEIGHT), WEIGHT(SL_LN_1_BIAS), h);
    SL_TRY(linear(s, SL_PRODUCT_ATTN_WEIGHT, h, kept + l->qkv, sl_stage_block(s, b, SL_ATTN_WEIGHT),
                  sl_stage_block(s, b, SL_ATTN_BIAS)));
    d->layernorm_weight_grad(n, w, added + l->norm1, kept + l->normal1, sums, GRADIENT(SL_LN_1_WEIGHT),
                             GRADIENT(SL_LN_1_BIAS));
    return SL_OK;
}

sl_status sl_block_weight_grad(sl_model_stage *s, int b, sl_half half, const float *kept,
                               const float *added) {
    return half == SL_HALF_ATTENTION ? attention_weight_grad(s, b, kept, added)
                                     : mlp_weight_grad(s, b, kept, added);
}
