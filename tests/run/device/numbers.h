/* Any numbers for a kernel: the same ones for the same seed. */
#ifndef SL_TESTS_NUMBERS_H
#define SL_TESTS_NUMBERS_H

#include "check.h"

static uint32_t state_of_random;

/* From `seed` on, or from SL_SEED; it is said, so that a failure can be run again. */
static inline void start_numbers(uint32_t seed) {
    const char *text = getenv("SL_SEED");
    state_of_random = text ? (uint32_t)atoi(text) : seed;
    print_message("seed %u (SL_SEED)\n", state_of_random);
}

/* -1 to 1 */
static inline float any(void) {
    state_of_random = state_of_random * 1664525u + 1013904223u;
    return (float)(state_of_random >> 8) * 0x1p-23f - 1.0f;
}

#endif
