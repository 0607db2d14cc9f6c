/* Meetings: the calls of several ranks that belong together, found in the recorded calls of all ranks.
 *
 * A collective is the n-th of its communicator on every member; a message is the n-th of its (communicator,
 * source, destination, tag) on both sides. Windows of records may begin anywhere on each rank, so the
 * sequences are first aligned: at the shift at which calls agree, no member leaves before the last has come,
 * nothing is received before it was sent, and ends are closest together.
 *
 * A receive from any source is not matched. */
#pragma once

#include "base/status.h"
#include "notice/detect/meetings.h"
#include "notice/record/call.h"

/** From calls and completions of ranks 0 to ranks - 1 in any order, times on one clock, with ranks and peers
 * of one world (a caller with NCCL's calls translates them); others are skipped. A call without an end is
 * ignored. `clock_error`: bound, ns, of the difference of any two ranks' clocks, by which a message may seem
 * to arrive before it was sent. SL_ENOMEM. Free with
 * sl_meetings_close, also on error. */
sl_status sl_meetings_find(const sl_call *call, size_t calls, int ranks, int64_t clock_error,
                           sl_meetings *meetings);
void sl_meetings_close(sl_meetings *meetings);
