/* Times are int64 nanoseconds inside and milliseconds (with the unit in the name) outside. */
#pragma once

#include <stdint.h>

typedef int64_t sl_time;

#define SL_TIME_NEVER INT64_MAX
#define SL_MS ((sl_time)1000000)
#define SL_SECOND ((sl_time)1000000000)

static inline double sl_to_ms(sl_time t) {
    return (double)t / 1e6;
}

/** Nearest ns; `ms` must be finite and below 9e12. */
static inline sl_time sl_from_ms(double ms) {
    return (sl_time)(ms * 1e6 + (ms < 0 ? -0.5 : 0.5));
}

static inline sl_time sl_later(sl_time a, sl_time b) {
    return a > b ? a : b;
}
static inline sl_time sl_sooner(sl_time a, sl_time b) {
    return a < b ? a : b;
}
