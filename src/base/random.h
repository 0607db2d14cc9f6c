/* Random bits as a pure function of their purpose, without state; and secrets, which are the system's. */
#pragma once

#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

/** `digits` random hexadecimal digits (even, at most 64) and the end, as a secret. SL_ESYS: "cannot get a
 * WHAT". */
sl_status sl_random_text(char *text, size_t digits, const char *what);

/* The golden ratio in 64 bits: counters in steps of it are as far apart as possible. */
#define SL_RANDOM_STEP UINT64_C(0x9e3779b97f4a7c15)

/** The finalizer of splitmix64 (Steele, Lea, Flood): a bijection that mixes every bit into every other. */
static inline uint64_t sl_random_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/** 53 of the bits as a number in (0, 1). */
static inline double sl_random_unit(uint64_t bits) {
    return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}
