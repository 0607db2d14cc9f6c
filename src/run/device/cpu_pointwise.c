#include "run/device/cpu_lanes.h"

/* gelu(x) = x / (1 + e) with e = exp(-2u), u = sqrt(2/pi) (x + 0.044715 x^3): the same as x (1 + tanh u) / 2,
 * and exact in relative terms where 1 + tanh u would cancel. e never overflows, because sl_exp ends at
 * exp(88). */
#define SLOPE 0.7978845608028654f
#define CUBIC 0.044715f

SL_VECTORISED
void sl_cpu_gelu(size_t count, const float *restrict x, float *restrict y) {
    for (size_t i = 0; i < count; i++) {
        const float v = x[i], e = sl_exp(-2.0f * (SLOPE * (v + CUBIC * (v * v * v))));
        y[i] = v * (1.0f / (1.0f + e));
    }
}

/* With s = 1 / (1 + e): d gelu / dx = s + x s (1 - s) 2u', and 1 - s = e s. */
SL_VECTORISED
void sl_cpu_gelu_input_grad(size_t count, float *restrict x, float *restrict d) {
    for (size_t i = 0; i < count; i++) {
        const float v = x[i], e = sl_exp(-2.0f * (SLOPE * (v + CUBIC * (v * v * v))));
        const float s = 1.0f / (1.0f + e), slope = 2.0f * SLOPE * (1.0f + 3.0f * CUBIC * (v * v));
        x[i] = v * s;
        d[i] = d[i] * (s + v * s * (e * s) * slope);
    }
}

SL_VECTORISED
void sl_cpu_bias_grad(int rows, int columns, int width, const float *restrict dy, float *restrict scratch,
                      float *restrict grad) {
    memset(scratch, 0, (size_t)columns * sizeof *scratch);
    for (int row = 0; row < rows; row++) {
        const float *d = dy + (size_t)row * (size_t)width;
        for (int i = 0; i < columns; i++)
            scratch[i] += d[i];
    }
    for (int i = 0; i < columns; i++)
        grad[i] += scratch[i];
}
