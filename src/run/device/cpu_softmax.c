#include "run/device/cpu_lanes.h"

#include <math.h>

SL_VECTORISED
void sl_cpu_softmax_causal(int context, float factor, float *s) {
    for (int row = 0; row < context; row++) {
        float *restrict p = s + (size_t)row * (size_t)context;
        const int width = row + 1;
        for (int i = 0; i < width; i++)
            p[i] = p[i] * factor;
        const float top = sl_row_max(p, width);
        for (int i = 0; i < width; i++)
            p[i] = sl_exp(p[i] - top);
        const float share = 1.0f / sl_row_sum(p, width);
        for (int i = 0; i < width; i++)
            p[i] = p[i] * share;
        for (int i = width; i < context; i++)
            p[i] = 0.0f;
    }
}

/* ds = factor * p * (dp - sum(dp * p)); beyond the diagonal p is 0 and so is ds. */
SL_VECTORISED
void sl_cpu_softmax_causal_grad(int context, float factor, const float *probability, float *gradient) {
    for (int row = 0; row < context; row++) {
        const float *restrict p = probability + (size_t)row * (size_t)context;
        float *restrict d = gradient + (size_t)row * (size_t)context;
        const float dot = sl_row_dot(p, d, row + 1);
        for (int i = 0; i <= row; i++)
            d[i] = factor * (p[i] * (d[i] - dot));
        for (int i = row + 1; i < context; i++)
            d[i] = 0.0f;
    }
}

SL_VECTORISED
double sl_cpu_cross_entropy(int rows, int vocabulary, float *logits, const uint16_t *target,
                            float grad_scale) {
    double loss = 0.0;
    for (int row = 0; row < rows; row++) {
        float *restrict l = logits + (size_t)row * (size_t)vocabulary;
        const float top = sl_row_max(l, vocabulary), right = l[target[row]];
        for (int i = 0; i < vocabulary; i++)
            l[i] = sl_exp(l[i] - top);
        const float sum = sl_row_sum(l, vocabulary);
        loss += log((double)sum) - ((double)right - (double)top);
        const float share = grad_scale / sum;
        for (int i = 0; i < vocabulary; i++)
            l[i] = l[i] * share;
        l[target[row]] -= grad_scale;
    }
    return loss;
}
