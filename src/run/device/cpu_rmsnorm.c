#include "run/device/cpu_lanes.h"

#include <math.h>

/* Llama's normalization: x divided by its root mean square, without mean or bias. */

SL_VECTORISED
void sl_cpu_rmsnorm(int rows, int width, float epsilon, const float *x, const float *gain, float *normal,
                    float *scale, float *y) {
    const float share = 1.0f / (float)width;
    for (int row = 0; row < rows; row++) {
        const float *restrict in = x + (size_t)row * (size_t)width;
        float *restrict n = normal + (size_t)row * (size_t)width;
        float *restrict out = y + (size_t)row * (size_t)width;
        const float s = 1.0f / sqrtf(sl_row_dot(in, in, width) * share + epsilon);
        scale[row] = s;
        for (int i = 0; i < width; i++) {
            n[i] = in[i] * s;
            out[i] = n[i] * gain[i];
        }
    }
}

SL_VECTORISED
void sl_cpu_rmsnorm_apply(int rows, int width, const float *normal, const float *gain, float *y) {
    for (int row = 0; row < rows; row++) {
        const float *restrict n = normal + (size_t)row * (size_t)width;
        float *restrict out = y + (size_t)row * (size_t)width;
        for (int i = 0; i < width; i++)
            out[i] = n[i] * gain[i];
    }
}

/* With g = dy * gain: dx = scale * (g - normal * mean(g * normal)). */
SL_VECTORISED
void sl_cpu_rmsnorm_input_grad(int rows, int width, const float *dy, const float *gain, const float *normal,
                               const float *scale, const float *residual, float *dx) {
    const float share = 1.0f / (float)width;
    for (int row = 0; row < rows; row++) {
        const float *d = dy + (size_t)row * (size_t)width, *n = normal + (size_t)row * (size_t)width;
        const float *r = residual ? residual + (size_t)row * (size_t)width : NULL;
        float *out = dx + (size_t)row * (size_t)width;
        sl_lanes product = {0}, vd, vg, vn;
        for (int i = 0; i < width; i += SL_LANES) {
            sl_lanes_load(d + i, width - i, &vd);
            sl_lanes_load(gain + i, width - i, &vg);
            sl_lanes_load(n + i, width - i, &vn);
            product += (vd * vg) * vn;
        }
        const float slope = sl_lanes_total(&product) * share, s = scale[row];
        if (r)
            for (int i = 0; i < width; i++)
                out[i] = r[i] + s * (d[i] * gain[i] - n[i] * slope);
        else
            for (int i = 0; i < width; i++)
                out[i] = s * (d[i] * gain[i] - n[i] * slope);
    }
}

SL_VECTORISED
void sl_cpu_rmsnorm_weight_grad(int rows, int columns, int width, const float *restrict dy,
                                const float *restrict normal, float *restrict scratch,
                                float *restrict gain_grad) {
    memset(scratch, 0, (size_t)columns * sizeof *scratch);
    for (int row = 0; row < rows; row++) {
        const float *d = dy + (size_t)row * (size_t)width, *n = normal + (size_t)row * (size_t)width;
        for (int i = 0; i < columns; i++)
            scratch[i] += d[i] * n[i];
    }
    for (int i = 0; i < columns; i++)
        gain_grad[i] += scratch[i];
}
