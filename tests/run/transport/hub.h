/* Makes and frees a hub: what threads of one process share that act as ranks. */
#pragma once

#include "base/memory.h"
#include "run/transport/peer.h"

#include <string.h>

static inline void sl_transport_hub_close(sl_transport_hub *hub) {
    if (!hub)
        return;
    for (int r = 0; hub->region && r < hub->ranks; r++)
        sl_free(hub->region[r]);
    SL_FREE(hub->region, hub->wires.free_at, hub);
}

/* A hub for `ranks` threads of this process. */
static inline sl_status sl_transport_hub_open(int ranks, size_t message_bytes, int slots,
                                              sl_transport_hub **hub) {
    char *towards;
    *hub = NULL;
    if (ranks < 1 || slots < 1)
        return sl_error(SL_EINVAL, "a hub for %d ranks and %d messages under way", ranks, slots);
    SL_TRY(sl_alloc(&towards, (size_t)ranks, 1));
    sl_status status = sl_alloc(hub, 1, sizeof **hub);
    if (status == SL_OK) {
        **hub = (sl_transport_hub){.ranks = ranks, .slots = slots, .message_bytes = message_bytes};
        status = sl_alloc(&(*hub)->region, (size_t)ranks, sizeof *(*hub)->region);
    }
    SL_THEN(status, sl_alloc(&(*hub)->wires.free_at, sl_wires_count(ranks), sizeof *(*hub)->wires.free_at));
    for (int r = 0; r < ranks && status == SL_OK; r++) {
        memset(towards, 1, (size_t)ranks);
        towards[r] = 0;
        status = sl_region_alloc(r, ranks, slots, message_bytes, towards, &(*hub)->region[r]);
    }
    sl_free(towards);
    if (status != SL_OK) {
        sl_transport_hub_close(*hub);
        *hub = NULL;
    }
    return status;
}
