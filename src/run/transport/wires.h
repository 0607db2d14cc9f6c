/* Wires shared by emulated links of several ranks: one word each, the time at which it becomes free
 * (link_emulator.h), in a file that all ranks of a host map, or in the hub. Ranks of different hosts cannot
 * share one: each host then has a wire of its own. */
#pragma once

#include "run/transport/lane.h"
#include "run/transport/transport.h"

#include <stdatomic.h>

typedef struct sl_wires {
    _Atomic int64_t *free_at; /* [count]; NULL: none */
    size_t bytes;             /* mapped; 0: not mapped by this structure */
} sl_wires;

/** Number of words for the links of `ranks` ranks: 2 * ranks * ranks. */
size_t sl_wires_count(int ranks);

/** Maps DIRECTORY/NAME with `count` words; the first caller creates it; all use the same count. SL_ESYS.
 * Close with sl_wires_close. */
sl_status sl_wires_open(const char *directory, const char *name, size_t count, sl_wires *wires);
void sl_wires_close(sl_wires *wires);

/* A hub: regions of several ranks in one process, so that threads can be ranks. */

struct sl_transport_hub {
    int ranks, slots;
    size_t message_bytes;
    sl_wires wires;
    sl_region **region; /* [ranks], each with a lane towards every other rank; untouched pages cost nothing */
};
