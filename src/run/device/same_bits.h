/* Functions that give the same bits on every device and for every instruction set: no step is left to a
 * library or to a processor's own instruction, and none is contracted. */
#pragma once

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define SL_INLINE static __host__ __device__ __forceinline__
#else
#define SL_INLINE static inline __attribute__((always_inline))
#endif

/** From f32 to bf16, rounded to nearest, ties to even, like the instruction set's own conversion of normal
 * numbers; a NaN stays one. */
SL_INLINE uint32_t sl_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, quiet = bits >> 16 | 0x40u;
    return (bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded;
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
