/* What a rank waited for. A rank that waits is late itself, so a wait blames a transfer only for the time
 * that nothing else explains:
 *
 * - A call that waits for several things (MPI_Waitall, MPI_Sendrecv) ends with the last of them, and all of
 *   them seem to end then. None of it is unexplained before the last of their partners came.
 * - A long message (rendezvous) needs both sides inside the library. A sender that computes meanwhile keeps
 *   the receiver waiting, unless the message arrives while it still computes: then the network carried it
 *   alone.
 * - A nonblocking collective is certain to move only when all members wait.
 *
 * What remains is the time of one of the transfers that the call waited for; several waits together show
 * which one (pairs.h). */
#pragma once

#include "base/status.h"
#include "notice/detect/meetings.h"
#include "notice/record/call.h"

/** Fills wait, others, outside and blind of all parts; sorted[calls] by rank, then end. SL_ENOMEM. */
sl_status sl_meetings_weigh_waits(sl_meetings *meetings, const sl_call *sorted, size_t calls);

/** ns of waiting that only a transfer explains. It starts when the last member has come, all wait, and
 * everything else that the same call waits for can move. It lasts until the transfer's end, without the time
 * in which a required sender computed. With device times: the shortest of the members', which waited for no
 * other.
 *
 * *whole: this is all of the transfer. Otherwise part of it may have happened before (an eager message, a
 * nonblocking call), or the wait may have been for something else in the same call (sl_meeting_part.wait).
 * -1: unknown, because that call waited for something unmatched. */
int64_t sl_meeting_transfer(const sl_meetings *all, const sl_meeting *meeting, int *whole);
