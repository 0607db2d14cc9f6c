/* The emulator of one directed emulated link: when a message takes it, leaves it, and is due at the receiver.
 * Pure arithmetic; no clock, no thread.
 *
 * The sender asks it when it hands a message over. One rank makes its messages one after the other, so those
 * of a link come in the order of their ready times, and first come first served is the order of the calls: a
 * message takes the link at start = max(ready, link free), leaves it at end = start + bytes / bandwidth and
 * is due at end + latency, but never before the message in front of it, so a latency that shrinks in
 * mid-stream lets nobody overtake.
 *
 * Several links may occupy one wire (`wire`): a word in memory that their ranks share, the time from which on
 * the wire is free. Ranks take it in the order in which they ask, so a message on a shared wire must be
 * handed over when it is ready, not ahead of that.
 *
 * An emulation may name more shared wires behind the link's own: the network cards at its ends. A message
 * occupies each of them for bytes / its bandwidth, on each from when it has started on the one before and
 * that wire is free (cut-through), and has left the link when it has left all of them. So a wire never
 * carries more than its bandwidth, and a message alone takes as long as on the slowest of them. */
#pragma once

#include "run/transport/transport.h"

#include <stdatomic.h>

typedef struct sl_link_emulator {
    sl_time free_at;       /* unless `wire` */
    sl_time last_due;      /* of this link */
    _Atomic int64_t *wire; /* NULL: the link has a wire of its own */
} sl_link_emulator;

/** Time that `bytes` occupy a link: nearest ns; 0 when the bandwidth is not a positive number. */
sl_time sl_link_emulator_transfer(uint64_t bytes, double bytes_per_second);

/** Enters a message: start, end and due into *times (arrive is not touched). With several wires `start` is
 * `end` less the longest of its transfers, so that end - start is what the message takes without others. */
void sl_link_emulator_enter(sl_link_emulator *emulator, sl_time ready, uint64_t bytes,
                            sl_link_emulation emulation, sl_sent *times);
