/* Sixteen-bit floats as f32; the conversion is exact. */
#pragma once

#include <stdint.h>
#include <string.h>

static inline float sl_float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/** bfloat16: the upper half of an f32. */
static inline float sl_float_of_bf16(uint16_t bits) {
    return sl_float_of_bits((uint32_t)bits << 16);
}

/** IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits. */
static inline float sl_float_of_f16(uint16_t bits) {
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = (bits >> 10) & 0x1fu,
                   fraction = bits & 0x3ffu;
    if (exponent == 0x1f) /* infinity or NaN */
        return sl_float_of_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent != 0)
        return sl_float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    const float small = (float)fraction * 0x1p-24f; /* zero or subnormal: exact */
    return sign ? -small : small;
}
