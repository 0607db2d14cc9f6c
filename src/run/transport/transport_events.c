#include "run/transport/transport_events.h"

#include <stdio.h>

void sl_transport_events_put(sl_transport_events *events, sl_transport_event_kind kind, int from, int to,
                             int rail, const char *text) {
    uint32_t put = atomic_load_explicit(&events->put, memory_order_relaxed);
    if (put - atomic_load_explicit(&events->taken, memory_order_acquire) == SL_EVENTS_KEPT)
        return;
    sl_transport_event *one = &events->ring[put % SL_EVENTS_KEPT];
    *one = (sl_transport_event){
        .kind = kind, .from = from, .to = to, .number = -1, .rail = rail, .time = sl_now()};
    snprintf(one->text, sizeof one->text, "%s", text);
    atomic_store_explicit(&events->put, put + 1, memory_order_release);
}

int sl_transport_events_take(sl_transport_events *events, sl_transport_event *one) {
    uint32_t taken = atomic_load_explicit(&events->taken, memory_order_relaxed);
    if (atomic_load_explicit(&events->put, memory_order_acquire) == taken)
        return 0;
    *one = events->ring[taken % SL_EVENTS_KEPT];
    atomic_store_explicit(&events->taken, taken + 1, memory_order_release);
    return 1;
}
