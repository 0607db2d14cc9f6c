#include "run/train/norm.h"

#include <math.h>

#define LANES 8

size_t sl_norm_blocks(size_t count) {
    return (count + SL_NORM_BLOCK - 1) / SL_NORM_BLOCK;
}

/* Element i goes to lane i % 8, lanes are added in order: fixed, and wide enough for any vector unit. */
static double block_squares(const float *x, size_t count) {
    double lane[LANES] = {0}, total = 0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += (double)x[i + l] * (double)x[i + l];
    for (size_t l = 0; i + l < count; l++)
        lane[l] += (double)x[i + l] * (double)x[i + l];
    for (size_t l = 0; l < LANES; l++)
        total += lane[l];
    return total;
}

void sl_norm_squares(const float *gradient, size_t count, double *out) {
    for (size_t at = 0; at < count; at += SL_NORM_BLOCK)
        out[at / SL_NORM_BLOCK] =
            block_squares(gradient + at, count - at < SL_NORM_BLOCK ? count - at : SL_NORM_BLOCK);
}

double sl_norm_total(const double *squares, size_t blocks) {
    double total = 0;
    for (size_t i = 0; i < blocks; i++)
        total += squares[i];
    return sqrt(total);
}

float sl_norm_clip(double norm, double limit) {
    return limit > 0 && norm > limit ? (float)(limit / norm) : 1.0f;
}
