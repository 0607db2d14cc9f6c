/* Wires that emulated links of several ranks share: one word each, the time from which on it is free
 * (link_emulator.h), in a file of a directory that all ranks of a host map, or in the hub. Ranks of different
 * hosts cannot share one: each host then has a wire of its own. */
#pragma once

#include "run/transport/lane.h"
#include "run/transport/transport.h"

#include <stdatomic.h>

typedef struct sl_wires {
    _Atomic int64_t *free_at; /* [count]; NULL: none */
    size_t bytes;             /* mapped; 0: not by this structure */
} sl_wires;

/** Number of words for the links of `ranks` ranks: twice as many. */
size_t sl_wires_count(int ranks);

/** Maps DIRECTORY/NAME with `count` words, made here by whoever comes first; all ask for as many. SL_ESYS.
 * Close with sl_wires_close. */
sl_status sl_wires_open(const char *directory, const char *name, size_t count, sl_wires *wires);
void sl_wires_close(sl_wires *wires);

/* A hub: regions of several ranks in one process, so that threads can be ranks. */

struct sl_transport_hub {
    int ranks, slots;
    size_t message_bytes;
    sl_wires wires;
    sl_region **region; /* [ranks], each with a lane towards every other rank; pages untouched cost nothing */
};
