#include "run/device/cpu_lanes.h"

#include <math.h>

/* The loss of a vocabulary that is divided over tensor ranks: what each does alone between their sums. */

SL_VECTORISED
void sl_cpu_entropy_top(int rows, int columns, const float *logits, float *top) {
    for (int row = 0; row < rows; row++)
        top[row] = sl_row_max(logits + (size_t)row * (size_t)columns, columns);
}

SL_VECTORISED
void sl_cpu_entropy_sums(int rows, int columns, int first, float *logits, const uint16_t *target,
                         const float *top, float *sums) {
    for (int row = 0; row < rows; row++) {
        float *restrict l = logits + (size_t)row * (size_t)columns;
        const int at = (int)target[row] - first;
        sums[rows + row] = at >= 0 && at < columns ? l[at] - top[row] : 0.0f;
        for (int i = 0; i < columns; i++)
            l[i] = sl_exp(l[i] - top[row]);
        sums[row] = sl_row_sum(l, columns);
    }
}

SL_VECTORISED
double sl_cpu_entropy_grad(int rows, int columns, int first, float *logits, const uint16_t *target,
                           const float *sums, float grad_scale) {
    double loss = 0.0;
    for (int row = 0; row < rows; row++) {
        float *restrict l = logits + (size_t)row * (size_t)columns;
        const int at = (int)target[row] - first;
        const float share = grad_scale / sums[row];
        loss += log((double)sums[row]) - (double)sums[rows + row];
        for (int i = 0; i < columns; i++)
            l[i] = l[i] * share;
        if (at >= 0 && at < columns)
            l[at] -= grad_scale;
    }
    return loss;
}
