/* The emulator of one directed emulated link: computes when a message enters it, leaves it, and is due at the
 * receiver. Pure arithmetic; no clock, no thread.
 *
 * The sender calls it when it hands a message over. A rank produces its messages one after the other, so
 * those of a link come in the order of their ready times, and first come first served is the order of the
 * calls. A message enters the link at start = max(ready, link free), leaves it at end = start + bytes /
 * bandwidth and is due at end + latency, but never before its predecessor, so a latency that shrinks in
 * mid-stream lets no message overtake.
 *
 * Several links may share one wire (`wire`): a word in shared memory, the time at which the wire becomes
 * free. Ranks occupy it in the order of their calls, so a message on a shared wire must be handed over when
 * it is ready, not before.
 *
 * An emulation may name more shared wires after the link's own: the network cards at its ends. A message
 * occupies each of them for bytes / its bandwidth, starting when it has started on the previous one and the
 * wire is free (cut-through). It has left the link when it has left all of them. So a wire never carries more
 * than its bandwidth, and a message alone takes as long as on the slowest of them. */
#pragma once

#include "run/transport/transport.h"

#include <stdatomic.h>

typedef struct sl_link_emulator {
    sl_time free_at;       /* unless `wire` */
    sl_time last_due;      /* of this link */
    _Atomic int64_t *wire; /* NULL: the link has a wire of its own */
} sl_link_emulator;

/** Time that `bytes` occupy a link: nearest ns; 0 if the bandwidth is not a positive number. */
sl_time sl_link_emulator_transfer(uint64_t bytes, double bytes_per_second);

/** Enters a message: start, end and due into *times (arrive is not touched). With several wires `start` is
 * `end` minus the longest of its transfers, so that end - start is the time the message would take alone. */
void sl_link_emulator_enter(sl_link_emulator *emulator, sl_time ready, uint64_t bytes,
                            sl_link_emulation emulation, sl_sent *times);

/* Words for wires shared by the links of several ranks, in a file that all ranks of a host map, or in the
 * hub. Ranks of different hosts cannot share one: each host then has a wire of its own. */
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
