/* Statistics of groups and ranks from meetings and the time between calls, summed over a window of records:
 * the data by which profiles are compared.
 *
 * A group is a set of members that do the same call with the same bytes (within 6%: four leading bits), in
 * any communicator; for messages a directed pair. Its transfer time counts from the arrival of its last
 * member (meeting.h), so a group that only waited for a member is as fast as before. A rank's computing is
 * the time outside of calls, by the two calls around it, so that two windows compare like with like. */
#pragma once

#include "notice/detect/meeting.h"

/* Sums over a number of durations, ns. */
typedef struct sl_spread {
    int64_t count;
    double sum, squares, most;
} sl_spread;

/** Mean without the largest, for four or more: a single interruption is not representative. */
double sl_spread_mean(const sl_spread *spread);
/** The squared standard error of that mean. */
double sl_spread_error2(const sl_spread *spread);

/* The calls that received a message and that waited until it was sent (sl_meeting_part.wait), and how long
 * only its transfer explains that. */
typedef struct sl_call_wait {
    int32_t received, sent;
    int64_t time; /* ns; 0: none, or unknown */
} sl_call_wait;

typedef struct sl_call_group {
    uint64_t communicator; /* the first in which it was seen */
    uint64_t bytes;        /* of its class */
    int32_t call, root, message, size;
    int32_t *member;    /* [size] ascending; of a message the source, then the destination */
    int32_t *last;      /* [size] how often each came last */
    sl_call_wait *wait; /* [waits] of a message, as often as it was sent */
    size_t waits, waits_capacity;
    sl_spread transfer; /* ns, of transfers for which all waited from the beginning */
    sl_spread exposed;  /* ns, of transfers that may have been seen only in part */
    sl_spread within;   /* ns, of all, from the last member's arrival to the last end: an upper bound */
} sl_call_group;

/* Computing between two calls of a rank; `before` and `after` are call, communicator and peer as one number.
 * `blurred`: a test ended it before which the rank may have waited, computing and testing in turns. */
typedef struct sl_call_gap {
    uint64_t before, after;
    uint64_t bytes; /* of the call after it, or of the call before it if that has none, as a class */
    sl_spread time;
    int blurred;
} sl_call_gap;

/* Bytes of one kind of call; calls of one kind differ in bytes when the work of iterations differs. */
typedef struct sl_call_volume {
    uint64_t call;
    double bytes, count;
} sl_call_volume;

typedef struct sl_call_rank {
    sl_call_gap *gap; /* [gaps] by before, after, bytes */
    size_t gaps;
    sl_call_volume *volume; /* [volumes] by call */
    size_t volumes;
    double span, computing; /* ns: of the window, and outside of calls in it */
    int64_t first[2];       /* start and end of its first call */
    double blurred;         /* ns: of all blurred gaps, which `computing` leaves out */
    uint64_t kind;          /* ranks of one kind make the same calls with the same bytes */
    int messages;           /* it sends or receives any */
    double starved;         /* share of the time in which it wanted a processor and had none; -1: unknown */
    double stopped;         /* share in which its control groups' quotas stopped them; -1: unknown */
} sl_call_rank;

typedef struct sl_call_profile {
    int ranks;
    sl_call_rank *rank;
    sl_call_group *group; /* [groups] by call, bytes, message, root, size, members */
    size_t groups;
    size_t waits;   /* calls that waited for something */
    double missing; /* share of the time by which iterations take longer than when healthy, as far as the
                       caller knows; 0: unknown */
} sl_call_profile;

/** The same group in another profile; NULL: none. */
const sl_call_group *sl_call_group_find(const sl_call_profile *in, const sl_call_group *group);

int sl_call_group_has(const sl_call_group *group, int rank);
