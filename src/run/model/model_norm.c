#include "run/model/transformer_inside.h"

/* The architecture's normalization. */

static int is_layer(const sl_model_stage *s) {
    return s->form->norm == SL_NORM_LAYER;
}

void sl_stage_norm(const sl_model_stage *s, const sl_parameter *gain, const sl_parameter *bias,
                   const float *x, float *normal, float *scale, float *y) {
    const int n = s->layout.rows, w = s->config.width;
    if (is_layer(s))
        s->device->layernorm(s->device, n, w, x, gain->weight, bias->weight, normal, scale, y);
    else
        s->device->rmsnorm(s->device, n, w, (float)s->config.norm_epsilon, x, gain->weight, normal, scale, y);
}

void sl_stage_norm_apply(const sl_model_stage *s, const sl_parameter *gain, const sl_parameter *bias,
                         const float *normal, float *y) {
    const int n = s->layout.rows, w = s->config.width;
    if (is_layer(s))
        s->device->layernorm_apply(s->device, n, w, normal, gain->weight, bias->weight, y);
    else
        s->device->rmsnorm_apply(s->device, n, w, normal, gain->weight, y);
}

void sl_stage_norm_input_grad(const sl_model_stage *s, const sl_parameter *gain, const float *dy,
                              const float *normal, const float *scale, const float *residual, float *dx) {
    const int n = s->layout.rows, w = s->config.width;
    if (is_layer(s))
        s->device->layernorm_input_grad(s->device, n, w, dy, gain->weight, normal, scale, residual, dx);
    else
        s->device->rmsnorm_input_grad(s->device, n, w, dy, gain->weight, normal, scale, residual, dx);
}

void sl_stage_norm_weight_grad(const sl_model_stage *s, const sl_parameter *gain, const sl_parameter *bias,
                               const float *dy, const float *normal) {
    const int n = s->layout.rows, w = s->config.width;
    float *sums = s->scratch + s->layout.sums;
    if (is_layer(s))
        s->device->layernorm_weight_grad(s->device, n, w, dy, normal, sums, gain->gradient, bias->gradient);
    else
        s->device->rmsnorm_weight_grad(s->device, n, w, dy, normal, sums, gain->gradient);
}
