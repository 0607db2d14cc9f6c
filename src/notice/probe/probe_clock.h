/* CLOCK_MONOTONIC in a few ns. A system call costs 25 to 60 ns, twice per call. So if the processor reports
 * that its counter runs at a constant rate, a thread makes it at most every 10 ms and counts ticks in
 * between, at the rate of the last two answers. A thread's times never go back. Otherwise the system is asked
 * each time. */
#pragma once

#include <stdint.h>

typedef struct sl_probe_clock {
    uint64_t tick;  /* counter at the last answer */
    uint64_t limit; /* ticks during which it is valid; 0: ask */
    uint64_t rate;  /* ns per tick, times 2^32 */
    int64_t ns;     /* the last answer */
    int64_t last;   /* the last time returned */
} sl_probe_clock;

/** Asks the system, and computes the rate. */
int64_t sl_probe_clock_ask(sl_probe_clock *clock);

static inline int64_t sl_probe_clock_now(sl_probe_clock *clock) {
#if defined __x86_64__
    uint64_t since = __builtin_ia32_rdtsc() - clock->tick;
    if (since < clock->limit) {
        int64_t now = clock->ns + (int64_t)((since * clock->rate) >> 32);
        return clock->last = now > clock->last ? now : clock->last;
    }
#endif
    return sl_probe_clock_ask(clock);
}
