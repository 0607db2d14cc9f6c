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
 * which one (call_compare.c). Internal to meeting.c and awaited.c. */
#pragma once

#include "notice/detect/meeting.h"

/** Fills wait, others, outside and blind of all parts; sorted[calls] by rank, then end. SL_ENOMEM. */
sl_status sl_meetings_weigh_waits(sl_meetings *meetings, const sl_call *sorted, size_t calls);
