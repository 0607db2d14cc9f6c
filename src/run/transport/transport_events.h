/* Events of the direct path, from the network thread to the compute side: a lock-free ring with one writer
 * and one reader. If it is full, new events are dropped, which costs only a log line. */
#pragma once

#include "run/transport/transport.h"
#include <stdatomic.h>

#define SL_EVENTS_KEPT 128u

typedef struct sl_transport_events {
    sl_transport_event ring[SL_EVENTS_KEPT];
    _Atomic uint32_t put, taken; /* writer, reader; each releases its own and acquires the other */
} sl_transport_events;

/** Network thread. */
void sl_transport_events_put(sl_transport_events *events, sl_transport_event_kind kind, int from, int to,
                             int rail, const char *text);
/** Compute side: 0: none. */
int sl_transport_events_take(sl_transport_events *events, sl_transport_event *one);
