/* A small test of a host's arithmetic and memory, whose result two hosts must agree on: a pattern goes
 * through 64 MiB of memory and back, and products of matrices of small integers, which are exact in f32 and
 * f64 however they are added, are folded into the result. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** The result for `seed`; 0 when memory does not give back what was written, or cannot be had. About 0.1 s.
 */
uint64_t sl_self_test(uint64_t seed);

/** The line that says it, which begins with this. */
#define SL_SELF_TEST_WORDS "slackline self-test "
void sl_self_test_words(uint64_t seed, uint64_t result, char *words, size_t size);
