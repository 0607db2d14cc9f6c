/* Times of possible decisions of ranks, earliest first: the clock of event-driven schedulers. A binary heap
 * by time, then rank. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <stddef.h>

typedef struct sl_moment {
    sl_time time;
    int32_t rank;
} sl_moment;

typedef struct sl_moments { /* all zero: none */
    sl_moment *heap;
    size_t count, capacity;
} sl_moments;

/** O(log count). SL_ENOMEM. */
sl_status sl_moments_add(sl_moments *moments, sl_time time, int rank);
/** The earliest, removed; count must not be 0. O(log count). */
sl_moment sl_moments_take(sl_moments *moments);
void sl_moments_free(sl_moments *moments);
