/* Numbers that a test draws: the same ones for the same seed. */
#ifndef SL_TESTS_PLAN_DRAWN_H
#define SL_TESTS_PLAN_DRAWN_H

#include <stdio.h>
#include <stdlib.h>

static unsigned random_state;

/* From `seed` on, or from SL_SEED; it is said, so that a failure can be run again. */
static inline void start_drawing(unsigned seed) {
    const char *given = getenv("SL_SEED");
    random_state = given ? (unsigned)strtoul(given, NULL, 10) : seed;
    printf("seed %u\n", random_state);
}

/* 0 to n - 1 */
static inline int draw(int n) {
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((random_state >> 10) % (unsigned)n);
}

#endif
