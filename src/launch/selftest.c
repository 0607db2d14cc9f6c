#include "launch/selftest.h"
#include "base/memory.h"
#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 8 << 20, SIDE = 96 };

static uint64_t mix(uint64_t x) {
    return sl_random_mix(x + SL_RANDOM_STEP);
}

/* Writes upwards, compares downwards, so that caches do not hide memory errors. 0: a word has changed. */
static int memory_keeps(uint64_t seed, uint64_t *memory, uint64_t *result) {
    for (uint64_t i = 0; i < WORDS; i++)
        memory[i] = mix(seed + i);
    __asm__ volatile("" ::"r"(memory) : "memory"); /* or the compiler may compare what it knows with itself */
    for (uint64_t i = WORDS; i-- > 0;) {
        if (memory[i] != mix(seed + i))
            return 0;
        *result = (*result ^ memory[i]) * 0x100000001b3ull;
    }
    return 1;
}

/* Entries within +-8: a sum of 96 products stays below 2^13 and is exact in both types. */
static uint64_t products(uint64_t seed, uint64_t result) {
    static const uint64_t b_at = SIDE * SIDE;
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            float single = 0;
            double twice = 0;
            for (int k = 0; k < SIDE; k++) {
                int a = (int)(mix(seed ^ (uint64_t)(i * SIDE + k)) % 17) - 8;
                int b = (int)(mix(seed ^ (b_at + (uint64_t)(k * SIDE + j))) % 17) - 8;
                single += (float)a * (float)b;
                twice += (double)a * (double)b;
            }
            result = (result ^ (uint64_t)(int64_t)single) * 0x100000001b3ull;
            result = (result ^ (uint64_t)(int64_t)twice) * 0x100000001b3ull;
        }
    return result;
}

uint64_t sl_self_test(uint64_t seed) {
    uint64_t *memory, result = 0xcbf29ce484222325ull;
    if (sl_alloc(&memory, WORDS, sizeof *memory) != SL_OK)
        return 0;
    int kept = memory_keeps(seed, memory, &result);
    sl_free(memory);
    return kept ? products(seed, result) : 0;
}

void sl_self_test_words(uint64_t seed, uint64_t result, char *words, size_t size) {
    snprintf(words, size, SL_SELF_TEST_WORDS "%016" PRIx64 " %016" PRIx64, seed, result);
}
