/* Meetings: the calls of several ranks that belong together, found in the recorded calls of all of them.
 *
 * A collective is the n-th of its communicator on every member; a message is the n-th of its (communicator,
 * source, destination, tag) on both sides. Windows of records may begin anywhere on each rank, so the
 * sequences are first laid over each other: at the shift at which calls agree, nobody leaves before the last
 * has come, nothing is received before it was sent, and ends lie closest together.
 *
 * Receives from any source, and calls of MPI_Sendrecv whose source is unknown, are matched as far as order
 * tells: an exchange with the exchange that its destination makes at that time; a wildcard with nothing. */
#ifndef SL_NOTICE_DETECT_MEETING_H
#define SL_NOTICE_DETECT_MEETING_H

#include "base/status.h"
#include "notice/record/call.h"
#include <stddef.h>

typedef struct sl_part {
    int32_t rank;
    int32_t polled;  /* its end was seen by a Test: when it began to wait is not known */
    int64_t start;   /* it gave its part: the call's beginning, or when it was posted */
    int64_t waiting; /* it began to wait: the same, or when the Wait that saw it complete began */
    int64_t end;
    int64_t device; /* ns between device events, -1: none */
} sl_part;

typedef struct sl_meeting {
    uint64_t communicator, bytes;
    int32_t call;    /* the sender's; of members that differ, the first one's */
    int32_t root;    /* SL_PEER_NONE: none */
    int32_t message; /* 1: part[0] sends to part[1] */
    int32_t size;
    size_t part; /* the first of its parts */
} sl_meeting;

typedef struct sl_meetings {
    sl_meeting *meeting;
    sl_part *part;
    size_t meetings, parts;
    size_t meetings_capacity, parts_capacity;
} sl_meetings;

/** From calls and completions of ranks 0 to ranks - 1 in any order, times on one clock, with ranks and peers
 * of one world (a caller with NCCL's calls translates them); others are skipped. A call without an end counts
 * as none. SL_ENOMEM. Free with sl_meetings_close, also on error. */
sl_status sl_meetings_find(const sl_call *call, size_t calls, int ranks, sl_meetings *meetings);
void sl_meetings_close(sl_meetings *meetings);

/** ns that the transfer itself took: from when the last member came, or if later from when the one that waits
 * longest began to wait, to its end. With device times: the shortest of the members', who waited for nobody.
 * *whole: everybody waited when it began. Else part of it may have happened before (an eager message, a
 * nonblocking call), and it took at least that long. */
int64_t sl_meeting_transfer(const sl_meetings *all, const sl_meeting *meeting, int *whole);

#endif
