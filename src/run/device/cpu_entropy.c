#include "run/device/cpu_lanes.h"

#include <math.h>

/* The loss; and for a vocabulary divided over tensor ranks, each rank's work between their sums. */

/* loss[row] is f64, so that rows are added in one order for any number of threads. */
SL_VECTORISED
void sl_cpu_cross_entropy(int rows, int vocabulary, float *logits, const uint16_t *target, float grad_scale,
                          double *loss) {
    for (int row = 0; row < rows; row++) {
        float *restrict l = logits + (size_t)row * (size_t)vocabulary;
        const float top = sl_row_max(l, vocabulary), right = l[target[row]];
        for (int i = 0; i < vocabulary; i++)
            l[i] = sl_exp(l[i] - top);
        const float sum = sl_row_sum(l, vocabulary);
        loss[row] = log((double)sum) - ((double)right - (double)top);
        const float share = grad_scale / sum;
        for (int i = 0; i < vocabulary; i++)
            l[i] = l[i] * share;
        l[target[row]] -= grad_scale;
    }
}

SL_VECTORISED
void sl_cpu_entropy_top(int rows, int columns, const float *logits, float *top) {
    for (int row = 0; row < rows; row++)
        top[row] = sl_row_max(logits + (size_t)row * (size_t)columns, columns);
}

SL_VECTORISED
void sl_cpu_entropy_sums(int rows, int columns, int first, float *logits, const uint16_t *target,
                         const float *top, float *sums, float *right) {
    for (int row = 0; row < rows; row++) {
        float *restrict l = logits + (size_t)row * (size_t)columns;
        const int at = (int)target[row] - first;
        right[row] = at >= 0 && at < columns ? l[at] - top[row] : 0.0f;
        for (int i = 0; i < columns; i++)
            l[i] = sl_exp(l[i] - top[row]);
        sums[row] = sl_row_sum(l, columns);
    }
}

SL_VECTORISED
void sl_cpu_entropy_grad(int rows, int columns, int first, float *logits, const uint16_t *target,
                         const float *sums, const float *right, float grad_scale, double *loss) {
    for (int row = 0; row < rows; row++) {
        float *restrict l = logits + (size_t)row * (size_t)columns;
        const int at = (int)target[row] - first;
        const float share = grad_scale / sums[row];
        loss[row] = log((double)sums[row]) - (double)right[row];
        for (int i = 0; i < columns; i++)
            l[i] = l[i] * share;
        if (at >= 0 && at < columns)
            l[at] -= grad_scale;
    }
}
