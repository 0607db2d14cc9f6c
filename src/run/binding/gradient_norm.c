#include "run/binding/gradient_norm.h"

#include <math.h>

size_t sl_norm_blocks(size_t count) {
    return (count + SL_NORM_BLOCK - 1) / SL_NORM_BLOCK;
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
