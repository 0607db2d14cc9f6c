/* A small test of a host's arithmetic and memory, whose result must agree between hosts: a pattern is written
 * to 64 MiB of memory and read back, and products of matrices of small integers, which are exact in f32 and
 * f64 in any order of addition, are folded into the result. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** The result for `seed`; 0 if memory does not return the written data, or cannot be allocated. About 0.1
 * s. */
uint64_t sl_self_test(uint64_t seed);

/** The prefix of the line with the result. */
#define SL_SELF_TEST_WORDS "slackline self-test "
void sl_self_test_words(uint64_t seed, uint64_t result, char *words, size_t size);
