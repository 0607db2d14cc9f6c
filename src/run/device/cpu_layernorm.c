#include "run/device/cpu_lanes.h"

#include <math.h>

#define EPSILON 1e-5f /* GPT-2's */

SL_VECTORISED
void sl_cpu_layernorm(int rows, int width, const float *x, const float *gain, const float *bias,
                      float *normal, float *scale, float *y) {
    const float share = 1.0f / (float)width;
    for (int row = 0; row < rows; row++) {
        const float *restrict in = x + (size_t)row * (size_t)width;
        float *restrict n = normal + (size_t)row * (size_t)width, *restrict out =
                                                                      y + (size_t)row * (size_t)width;
        const float mean = sl_row_sum(in, width) * share;
        for (int i = 0; i < width; i++)
            n[i] = in[i] - mean;
        const float s = 1.0f / sqrtf(sl_row_dot(n, n, width) * share + EPSILON);
        scale[row] = s;
        for (int i = 0; i < width; i++) {
            n[i] = n[i] * s;
            out[i] = n[i] * gain[i] + bias[i];
        }
    }
}

SL_VECTORISED
void sl_cpu_layernorm_apply(int rows, int width, const float *normal, const float *gain, const float *bias,
                            float *y) {
    for (int row = 0; row < rows; row++) {
        const float *restrict n = normal + (size_t)row * (size_t)width;
        float *restrict out = y + (size_t)row * (size_t)width;
        for (int i = 0; i < width; i++)
            out[i] = n[i] * gain[i] + bias[i];
    }
}

/* With g = dy * gain: dx = scale * (g - mean(g) - normal * mean(g * normal)). */
SL_VECTORISED
void sl_cpu_layernorm_input_grad(int rows, int width, const float *dy, const float *gain, const float *normal,
                                 const float *scale, const float *residual, float *dx) {
    const float share = 1.0f / (float)width;
    for (int row = 0; row < rows; row++) {
        const float *d = dy + (size_t)row * (size_t)width, *n = normal + (size_t)row * (size_t)width;
        float *out = dx + (size_t)row * (size_t)width;
        sl_lanes sum = {0}, product = {0}, vd, vg, vn;
        for (int i = 0; i < width; i += SL_LANES) {
            sl_lanes_load(d + i, width - i, &vd);
            sl_lanes_load(gain + i, width - i, &vg);
            sl_lanes_load(n + i, width - i, &vn);
            vd *= vg;
            sum += vd;
            product += vd * vn;
        }
        const float mean = sl_lanes_total(&sum) * share, slope = sl_lanes_total(&product) * share,
                    s = scale[row];
        if (residual) {
            const float *r = residual + (size_t)row * (size_t)width;
            for (int i = 0; i < width; i++)
                out[i] = r[i] + s * ((d[i] * gain[i] - mean) - n[i] * slope);
        } else {
            for (int i = 0; i < width; i++)
                out[i] = s * ((d[i] * gain[i] - mean) - n[i] * slope);
        }
    }
}

SL_VECTORISED
void sl_cpu_layernorm_weight_grad(int rows, int columns, int width, const float *dy, const float *normal,
                                  float *restrict gain_sum, float *restrict bias_sum, float *gain_grad,
                                  float *bias_grad) {
    memset(gain_sum, 0, (size_t)columns * sizeof *gain_sum);
    memset(bias_sum, 0, (size_t)columns * sizeof *bias_sum);
    for (int row = 0; row < rows; row++) {
        const float *restrict d = dy + (size_t)row * (size_t)width;
        const float *restrict n = normal + (size_t)row * (size_t)width;
        for (int i = 0; i < columns; i++) {
            gain_sum[i] += d[i] * n[i];
            bias_sum[i] += d[i];
        }
    }
    for (int i = 0; i < columns; i++) {
        gain_grad[i] += gain_sum[i];
        bias_grad[i] += bias_sum[i];
    }
}
