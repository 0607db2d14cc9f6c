/* What NCCL's profiler plug-in (notice/plugin), a library of its own, writes through the probe: the same
 * rings, clock and process as those of the wrapped calls. Exported, and found by the loader in the preloaded
 * probe. Any thread; nothing here waits or fails. */
#pragma once

#include "notice/record/call.h"

/** From now on NCCL's calls are recorded by the plug-in: wrappers only let them pass the gate. 1: they are
 * recorded; 0: there is no folder, or no ring for this thread. */
int sl_reported_plugged(void);

/** The level of timing that the agent asks for. */
sl_timing sl_reported_timing(void);

/** ns, CLOCK_MONOTONIC; 0: timing is off, or nothing is recorded. */
int64_t sl_reported_now(void);

/** Writes a record of this thread, whose number is filled in. */
void sl_reported_write(sl_call *call);

/** Counts events that found no slot, with the requests and communicators for which a table had no room. */
void sl_reported_lost(uint32_t events);
