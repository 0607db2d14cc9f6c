/* Clock domains: the offset of another host's monotonic clock from ours, from round trips (pure: timestamps
 * in, offset and error bound out). The true offset is within offset +- error whatever time the two directions
 * took, because a reply cannot leave before the request arrived; the shortest round trip gives the best bound
 * (Cristian's method). */
#pragma once

#include <stdint.h>

#define SL_OFFSET_TRIPS 64

typedef struct sl_offset_trip {
    int64_t offset, error;
} sl_offset_trip;

typedef struct sl_offset {
    int64_t offset;                       /* their clock - ours, ns */
    int64_t error;                        /* bound, ns */
    int trips;                            /* round trips seen */
    sl_offset_trip trip[SL_OFFSET_TRIPS]; /* the last ones, a ring: clocks drift, so old trips are dropped */
} sl_offset;

/** Adds one round trip: sent and received on our clock, replied on theirs. `frozen`: the link is suspect, so
 * the trip is ignored and the estimate stays. */
void sl_offset_add(sl_offset *estimate, int64_t sent, int64_t replied, int64_t received, int frozen);

/** Whether two one-way delays, seen through clocks with this error bound, certainly differ in direction. */
int sl_offset_direction_certain(int64_t delay, int64_t opposite, int64_t error);
