/* Meetings of calls, as meeting.h finds them and awaited.h weighs the waits of their parts. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct sl_meeting_part {
    int32_t rank;
    int32_t polled;  /* its end was seen by a Test that takes no time: the start of its wait is unknown */
    int64_t start;   /* it gave its part: the call's beginning, or when it was posted */
    int64_t waiting; /* it began to wait: the same, or the beginning of the Wait that saw it complete */
    int64_t end;
    int64_t device; /* ns on the device, of a proxy on the network; -1: none */
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
