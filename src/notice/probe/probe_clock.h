/* CLOCK_MONOTONIC in a few ns. Asking the system costs 25 to 60 ns, twice a call; so where the processor's
 * counter runs at a constant rate (the processor says so) a thread asks at most every 10 ms and counts ticks
 * in between, at the rate of the last two answers. A thread's times never go back. Elsewhere the system is
 * asked each time. */
#pragma once

#include <stdint.h>

typedef struct sl_probe_clock {
    uint64_t tick;  /* counter at the last answer */
    uint64_t limit; /* ticks for which it may be used; 0: ask */
    uint64_t rate;  /* ns a tick, times 2^32 */
    int64_t ns;     /* the last answer */
    int64_t last;   /* the last time given out */
} sl_probe_clock;

/** Asks the system, and finds the rate. */
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
