/* Sums over a row in 16 lanes: lane l holds elements l, l + 16, ... and the lanes are added as a fixed tree,
 * so the value is a function of the row alone. And exp, as a polynomial that every instruction set evaluates
 * alike. */
#ifndef SL_RUN_DEVICE_CPU_LANES_H
#define SL_RUN_DEVICE_CPU_LANES_H

#include "run/device/cpu.h"
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

/** Up to 16 elements, 0 where the row has ended. */
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

/** exp(x) with a relative error below 2e-7 for -87 <= x <= 88; beyond, the value at that end. NaN stays NaN.
 *  x = n log 2 + r with |r| <= log(2) / 2, a polynomial in r (Cephes, expf), times 2^n. */
SL_INLINE float sl_exp(float x) {
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    float z = x * 1.44269504088896341f + shift, n = z - shift, power;
    float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = (p * (r * r) + r) + 1.0f;
    uint32_t bits;
    memcpy(&bits, &z, sizeof bits);
    bits = (bits + 127u)
           << 23; /* the integer part of z's mantissa, as an exponent; what is above is shifted out */
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

#endif
