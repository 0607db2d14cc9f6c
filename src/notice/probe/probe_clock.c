#include "notice/probe/probe_clock.h"

#include <time.h>

#define INTERVAL 10000000 /* ns between two answers */
#define SHORTEST 1000000  /* ns that a rate is taken over */

static int64_t system_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#if defined __x86_64__
#include <cpuid.h>

/* The counter runs at one rate, whatever the core's frequency or sleep: 1 yes, 2 no. */
static int constant_rate(void) {
    static _Atomic int known; /* all threads find the same */
    int answer = known;
    if (answer == 0) {
        unsigned a, b, c, d = 0;
        answer = __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8)) ? 1 : 2;
        known = answer;
    }
    return answer == 1;
}

/* The system's time and the counter at that time: of a few tries the one with the fewest ticks, because a
 * thread may be interrupted between the two. */
static int64_t answer(uint64_t *tick) {
    uint64_t shortest = UINT64_MAX;
    int64_t best = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t start = __builtin_ia32_rdtsc();
        int64_t ns = system_now();
        uint64_t took = __builtin_ia32_rdtsc() - start;
        if (took < shortest) {
            shortest = took;
            best = ns;
            *tick = start + took / 2;
        }
    }
    return best;
}

int64_t sl_probe_clock_ask(sl_probe_clock *clock) {
    int64_t now;
    if (!constant_rate()) {
        now = system_now();
    } else if (clock->ns != 0 && system_now() - clock->ns < SHORTEST && clock->rate == 0) {
        now = system_now(); /* too early for a rate */
    } else {
        uint64_t tick = 0;
        now = answer(&tick);
        if (clock->ns != 0 && tick > clock->tick && now > clock->ns) {
            double rate = (double)(now - clock->ns) / (double)(tick - clock->tick);
            clock->rate = (uint64_t)(rate * 4294967296.0);
            clock->limit = (uint64_t)(INTERVAL / rate);
        }
        clock->tick = tick;
        clock->ns = now;
    }
    return clock->last = now > clock->last ? now : clock->last;
}
#else
int64_t sl_probe_clock_ask(sl_probe_clock *clock) {
    return clock->last = system_now();
}
#endif
