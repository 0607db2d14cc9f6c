/* Sums over a row in 16 lanes: lane l holds elements l, l + 16, ... and the lanes are added as a fixed tree,
 * so the value depends on the row only. */
#pragma once

#include "run/device/cpu_kernels.h"
#include <string.h>

#define SL_LANES 16

typedef float sl_lanes __attribute__((vector_size(SL_LANES * sizeof(float))));

/** lane[0] becomes the sum of the lanes. */
SL_INLINE float sl_lanes_total(const sl_lanes *lanes) {
    float lane[SL_LANES];
    memcpy(lane, lanes, sizeof lane);
    for (int width = SL_LANES / 2; width; width /= 2)
        for (int l = 0; l < width; l++)
            lane[l] += lane[l + width];
    return lane[0];
}

/** Up to 16 elements, 0 after the end of the row. */
SL_INLINE void sl_lanes_load(const float *x, int left, sl_lanes *out) {
    if (left >= SL_LANES) {
        memcpy(out, x, sizeof *out);
        return;
    }
    float lane[SL_LANES] = {0};
    for (int l = 0; l < left; l++)
        lane[l] = x[l];
    memcpy(out, lane, sizeof *out);
}

SL_INLINE float sl_row_sum(const float *x, int width) {
    sl_lanes sum = {0}, v;
    for (int i = 0; i < width; i += SL_LANES) {
        sl_lanes_load(x + i, width - i, &v);
        sum += v;
    }
    return sl_lanes_total(&sum);
}

SL_INLINE float sl_row_dot(const float *x, const float *y, int width) {
    sl_lanes sum = {0}, v, w;
    for (int i = 0; i < width; i += SL_LANES) {
        sl_lanes_load(x + i, width - i, &v);
        sl_lanes_load(y + i, width - i, &w);
        sum += v * w;
    }
    return sl_lanes_total(&sum);
}

/** Largest element; a NaN is carried into the exponentials by the caller's subtraction. */
SL_INLINE float sl_row_max(const float *x, int width) {
    float lane[SL_LANES];
    for (int l = 0; l < SL_LANES; l++)
        lane[l] = x[0];
    int i = 0;
    for (; i + SL_LANES <= width; i += SL_LANES)
        for (int l = 0; l < SL_LANES; l++)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (int l = 0; i + l < width; l++)
        lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (int l = 1; l < SL_LANES; l++)
        lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    return lane[0];
}

/** 16 rows of 16 become 16 columns, in four rounds of swapping halves, quarters, ... */
SL_INLINE void sl_lanes_turn(sl_lanes *row) {
#pragma GCC unroll 16
    for (int r = 0; r < SL_LANES; r++)
        if (!(r & 8)) {
            const sl_lanes low = row[r], high = row[r + 8];
            row[r] =
                __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
            row[r + 8] = __builtin_shufflevector(low, high, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28,
                                                 29, 30, 31);
        }
#pragma GCC unroll 16
    for (int r = 0; r < SL_LANES; r++)
        if (!(r & 4)) {
            const sl_lanes low = row[r], high = row[r + 4];
            row[r] =
                __builtin_shufflevector(low, high, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
            row[r + 4] = __builtin_shufflevector(low, high, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28,
                                                 29, 30, 31);
        }
#pragma GCC unroll 16
    for (int r = 0; r < SL_LANES; r++)
        if (!(r & 2)) {
            const sl_lanes low = row[r], high = row[r + 2];
            row[r] =
                __builtin_shufflevector(low, high, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
            row[r + 2] = __builtin_shufflevector(low, high, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14,
                                                 15, 30, 31);
        }
#pragma GCC unroll 16
    for (int r = 0; r < SL_LANES; r++)
        if (!(r & 1)) {
            const sl_lanes low = row[r], high = row[r + 1];
            row[r] =
                __builtin_shufflevector(low, high, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
            row[r + 1] =
                __builtin_shufflevector(low, high, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
        }
}
