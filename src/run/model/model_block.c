#include "run/model/transformer_inside.h"

/* One half of a block, of any form: x += out(core(in(norm(x)))).
 *
 * W needs the core's output (the outgoing layer's input) and the gradients of its inputs (those of the
 * incoming layers' outputs). I leaves them where there is room:
 *
 *              output of the core         gradients of its inputs
 *   attention  kept.heads, from F         kept.in, over q, k and v
 *   gelu       kept.in[0], over its input added.inner, over its output's gradient
 *   swiglu     added.inner, likewise      kept.in, over gate and up */

typedef struct block_half {
    const sl_half_form *form;
    const sl_half_layout *at;
    const sl_parameter *gain, *bias; /* of the normalization */
} half_of;

static half_of get(const sl_model_stage *s, int b, sl_half half) {
    const sl_half_form *f = &s->form->half[half];
    return (half_of){.form = f,
                     .at = &s->layout.half[half],
                     .gain = sl_stage_block(s, b, f->gain),
                     .bias = sl_stage_block(s, b, f->bias)};
}

static const float *bias_of(const sl_parameter *parameter) {
    return parameter ? parameter->weight : NULL;
}

static float *in_grad(const half_of *h, float *kept, float *added, int i) {
    return h->form->core == SL_CORE_GELU ? added + h->at->inner : kept + h->at->in[i];
}

static float *core_output(const half_of *h, float *kept, float *added) {
    return h->form->core == SL_CORE_ATTENTION ? kept + h->at->heads
           : h->form->core == SL_CORE_GELU    ? kept + h->at->in[0]
                                              : added + h->at->inner;
}

/* ---- attention: q, k and v are three buffers or, from one layer, columns of one ---- */

typedef struct views {
    float *q, *k, *v;
} views;

static views views_of(const sl_model_stage *s, const half_of *h, float *kept) {
    float *q = kept + h->at->in[0];
    if (h->form->ins == 1)
        return (views){q, q + s->layout.query, q + s->layout.query + s->layout.key};
    return (views){q, kept + h->at->in[1], kept + h->at->in[2]};
}

static void turn(const sl_model_stage *s, const views *at, int backward) {
    const sl_attention_shape *a = &s->attention;
    const float *table = s->scratch + s->layout.rope;
    if (!s->form->rotary)
        return;
    s->device->rope(s->device, s->layout.rows, a->context, a->heads, a->size, a->q_stride, backward, table,
                    at->q);
    s->device->rope(s->device, s->layout.rows, a->context, a->kv_heads, a->size, a->kv_stride, backward,
                    table, at->k);
}

static void attend(const sl_model_stage *s, const half_of *h, float *kept) {
    const views at = views_of(s, h, kept);
    turn(s, &at, 0);
    s->device->attention(s->device, &s->attention, at.q, at.k, at.v, kept + h->at->heads, kept + h->at->lse,
                         s->scratch + s->layout.attention);
}

static void attend_input_grad(const sl_model_stage *s, const half_of *h, float *kept, const float *dout) {
    const views at = views_of(s, h, kept);
    s->device->attention_grad(s->device, &s->attention, at.q, at.k, at.v, kept + h->at->heads,
                              kept + h->at->lse, dout, at.q, at.k, at.v, s->scratch + s->layout.attention);
    turn(s, &at, 1);
}

/* ---- F ---- */

/* Normalization and incoming layers, and the attention, whose output is kept. */
static sl_status enter(sl_model_stage *s, int b, sl_half half, const half_of *h, float *kept) {
    float *normed = s->scratch + s->layout.h;
    sl_stage_norm(s, h->gain, h->bias, s->scratch + s->layout.x, kept + h->at->normal, kept + h->at->scale,
                  normed);
    for (int i = 0; i < h->form->ins; i++)
        SL_TRY(sl_stage_multiply(s, s->product.half[half][i][SL_PRODUCT_FORWARD], normed,
                                 sl_stage_weight(s, b, half, i, SL_PRODUCT_FORWARD),
                                 bias_of(sl_stage_block(s, b, h->form->in[i].bias)), kept + h->at->in[i]));
    if (h->form->core == SL_CORE_ATTENTION)
        attend(s, h, kept);
    return SL_OK;
}

/* Adds the outgoing layer to the residual stream; its bias is added once, after the sum over tensor ranks. */
static sl_status leave(sl_model_stage *s, int b, sl_half half, const half_of *h, float *kept) {
    const size_t n = (size_t)s->layout.rows, inner = n * (size_t)s->layout.hidden;
    const void *weight = sl_stage_weight(s, b, half, SL_LINEAR_OUT, SL_PRODUCT_FORWARD);
    const float *bias = bias_of(sl_stage_block(s, b, h->form->out.bias));
    float *x = s->scratch + s->layout.x, *part = s->scratch + s->layout.h,
          *wide = s->scratch + s->layout.wide;
    const float *core = h->form->core == SL_CORE_ATTENTION ? kept + h->at->heads : wide;
    sl_matmul *product = s->product.half[half][SL_LINEAR_OUT][SL_PRODUCT_FORWARD];
    if (h->form->core == SL_CORE_GELU)
        s->device->gelu(s->device, inner, kept + h->at->in[0], wide);
    if (h->form->core == SL_CORE_SWIGLU)
        s->device->swiglu(s->device, inner, kept + h->at->in[0], kept + h->at->in[1], wide);
    if (s->config.tensor.size == 1)
        return sl_stage_multiply(s, product, core, weight, bias, x);
    SL_TRY(sl_stage_multiply(s, product, core, weight, NULL, part));
    SL_TRY(sl_stage_sum(s, part, n * (size_t)s->config.width));
    s->device->add_rows(s->device, s->layout.rows, s->config.width, part, bias, x);
    return SL_OK;
}

sl_status sl_block_forward(sl_model_stage *s, int b, sl_half half, float *kept) {
    const half_of h = get(s, b, half);
    SL_TRY(enter(s, b, half, &h, kept));
    return leave(s, b, half, &h, kept);
}

sl_status sl_block_again(sl_model_stage *s, int b, float *kept) {
    const half_of mlp = get(s, b, SL_HALF_MLP);
    SL_TRY(sl_block_forward(s, b, SL_HALF_ATTENTION, kept));
    return enter(s, b, SL_HALF_MLP, &mlp, kept);
}

/* ---- I ---- */

static sl_status core_input_grad(sl_model_stage *s, int b, sl_half half, const half_of *h, float *kept,
                                 float *added) {
    const size_t inner = (size_t)s->layout.rows * (size_t)s->layout.hidden;
    int attention = h->form->core == SL_CORE_ATTENTION;
    float *grad = attention ? s->scratch + s->layout.h : added + h->at->inner;
    SL_TRY(sl_stage_multiply(s, s->product.half[half][SL_LINEAR_OUT][SL_PRODUCT_INPUT], added + h->at->out,
                             sl_stage_weight(s, b, half, SL_LINEAR_OUT, SL_PRODUCT_INPUT), NULL, grad));
    if (attention)
        attend_input_grad(s, h, kept, grad);
    else if (h->form->core == SL_CORE_GELU)
        s->device->gelu_input_grad(s->device, inner, kept + h->at->in[0], grad);
    else
        s->device->swiglu_input_grad(s->device, inner, kept + h->at->in[0], kept + h->at->in[1], grad);
    return SL_OK;
}

sl_status sl_block_input_grad(sl_model_stage *s, int b, sl_half half, float *kept, float *added,
                              float *input_grad) {
    const half_of h = get(s, b, half);
    float *down = half == SL_HALF_MLP ? added + s->layout.half[SL_HALF_ATTENTION].out : input_grad;
    SL_TRY(core_input_grad(s, b, half, &h, kept, added));
    for (int i = 0; i < h.form->ins; i++)
        SL_TRY(sl_stage_multiply(s, s->product.half[half][i][SL_PRODUCT_INPUT], in_grad(&h, kept, added, i),
                                 sl_stage_weight(s, b, half, i, SL_PRODUCT_INPUT), NULL, added + h.at->norm));
    SL_TRY(sl_stage_sum(s, added + h.at->norm, (size_t)s->layout.rows * (size_t)s->config.width));
    sl_stage_norm_input_grad(s, h.gain, added + h.at->norm, kept + h.at->normal, kept + h.at->scale,
                             added + h.at->out, down);
    return SL_OK;
}

/* ---- W ---- */

/* A linear layer's operands: its input, the gradient of its output. */
static sl_status linear_weight_grad(sl_model_stage *s, int b, sl_matmul *product, const sl_linear *form,
                                    const float *input, const float *grad) {
    const sl_parameter *weight = sl_stage_block(s, b, form->weight), *bias = sl_stage_block(s, b, form->bias);
    int swap = s->form->outputs_first;
    SL_TRY(sl_stage_multiply(s, product, swap ? grad : input, swap ? input : grad, NULL, weight->gradient));
    if (bias)
        s->device->bias_grad(s->device, s->layout.rows, bias->columns, grad, s->scratch + s->layout.sums,
                             bias->gradient);
    return SL_OK;
}

static sl_status half_weight_grad(sl_model_stage *s, int b, sl_half half, sl_product_op op, const half_of *h,
                                  float *kept, float *added) {
    float *normed = s->scratch + s->layout.h;
    SL_TRY(linear_weight_grad(s, b, s->product.half[half][SL_LINEAR_OUT][op], &h->form->out,
                              core_output(h, kept, added), added + h->at->out));
    sl_stage_norm_apply(s, h->gain, h->bias, kept + h->at->normal, normed);
    for (int i = 0; i < h->form->ins; i++)
        SL_TRY(linear_weight_grad(s, b, s->product.half[half][i][op], &h->form->in[i], normed,
                                  in_grad(h, kept, added, i)));
    sl_stage_norm_weight_grad(s, h->gain, h->bias, added + h->at->norm, kept + h->at->normal);
    return SL_OK;
}

sl_status sl_block_weight_grad(sl_model_stage *s, int b, sl_half half, int first, float *kept, float *added) {
    const half_of h = get(s, b, half);
    return half_weight_grad(s, b, half, first ? SL_PRODUCT_FIRST : SL_PRODUCT_WEIGHT, &h, kept, added);
}
