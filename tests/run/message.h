/* What the tests of the transport share: a payload that is a function of its name, and random numbers from a
 * printed seed. */
#ifndef SL_TESTS_TRANSPORT_MESSAGE_H
#define SL_TESTS_TRANSPORT_MESSAGE_H

#include "check.h"

#include "base/clock.h"
#include "base/random.h"
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* splitmix64 */
static inline uint64_t random_next(uint64_t *state) {
    return sl_random_mix(*state += SL_RANDOM_STEP);
}

static inline uint64_t seed_of_the_run(void) {
    const char *given = getenv("SL_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
    printf("SL_SEED=%llu\n", (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

/* The byte at `position` of message (from, to, iteration, index). */
static inline uint8_t content(int from, int to, uint32_t iteration, uint32_t index, size_t position) {
    uint64_t state =
        ((uint64_t)from << 48) ^ ((uint64_t)to << 40) ^ ((uint64_t)iteration << 20) ^ index ^ (position / 8);
    return (uint8_t)(random_next(&state) >> (8 * (position % 8)));
}

static inline void fill(uint8_t *data, size_t bytes, int from, int to, uint32_t iteration, uint32_t index) {
    for (size_t i = 0; i < bytes; i++)
        data[i] = content(from, to, iteration, index, i);
}

static inline int is_filled(const uint8_t *data, size_t bytes, int from, int to, uint32_t iteration,
                            uint32_t index) {
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != content(from, to, iteration, index, i))
            return 0;
    return 1;
}

/* In a forked process: what must hold, or it ends with exit code 1 and says why. */
#define MUST(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, sl_error_text());             \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

static inline void check_child(pid_t child) {
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

#endif
