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
#include "notice/record/call.h"
#include <stddef.h>

typedef struct sl_meeting_part {
    int32_t rank;
    int32_t polled;  /* its end was seen by a Test: the start of its wait is unknown */
    int64_t start;   /* it gave its part: the call's beginning, or when it was posted */
    int64_t waiting; /* it began to wait: the same, or the beginning of the Wait that saw it complete */
    int64_t end;
    int64_t device; /* ns between device events, -1: none */
    int32_t thread; /* of the rank */
    int32_t
        wait; /* the call that saw its end, counted from 0 over all ranks: equal for all that it waited for */
    int64_t call;    /* beginning of that call */
    int64_t others;  /* before this time, something else that the call waited for could not move; INT64_MIN:
                        nothing else */
    int64_t outside; /* of a message's sender, ns: computing while the receiver waited for its progress */
    int32_t blind;   /* the call also waited for something unmatched */
} sl_meeting_part;

typedef struct sl_meeting {
    uint64_t communicator, bytes;
    int32_t call;    /* the sender's; if members differ, the first one's */
    int32_t root;    /* SL_PEER_NONE: none */
    int32_t message; /* 1: part[0] sends to part[1] */
    int32_t size;
    size_t part; /* the first of its parts */
} sl_meeting;

typedef struct sl_meetings {
    sl_meeting *meeting;
    sl_meeting_part *part;
    size_t meetings, parts;
    size_t waits; /* calls that waited for a part: sl_meeting_part.wait counts them */
    size_t meetings_capacity, parts_capacity;
} sl_meetings;

/** From calls and completions of ranks 0 to ranks - 1 in any order, times on one clock, with ranks and peers
 * of one world (a caller with NCCL's calls translates them); others are skipped. A call without an end is
 * ignored. `clock_error`: bound, ns, of the difference of any two ranks' clocks. SL_ENOMEM. Free with
 * sl_meetings_close, also on error. */
sl_status sl_meetings_find(const sl_call *call, size_t calls, int ranks, int64_t clock_error,
                           sl_meetings *meetings);
void sl_meetings_close(sl_meetings *meetings);

/** ns of waiting that only a transfer explains. It starts when the last member has come, all wait, and
 * everything else that the same call waits for can move. It lasts until the transfer's end, without the time
 * in which a required sender computed. With device times: the shortest of the members', which waited for no
 * other.
 *
 * *whole: this is all of the transfer. Otherwise part of it may have happened before (an eager message, a
 * nonblocking call), or the wait may have been for something else in the same call (sl_meeting_part.wait).
 * -1: unknown, because that call waited for something unmatched. */
int64_t sl_meeting_transfer(const sl_meetings *all, const sl_meeting *meeting, int *whole);
