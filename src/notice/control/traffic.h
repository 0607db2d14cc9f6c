/* Which rank sends to which, from the calls of a profile: messages, bytes and time of each direction between
 * two ranks of the world. The controller and viewers (src/dashboard) feed it with the messages of the log of
 * profiles as they come; a link is reported once its sender's part is complete.
 *
 * MPI and Gloo name ranks of the world. NCCL names ranks of a communicator: their ranks in the world are
 * known from the calls that they make on it themselves. These calls may come later; such links wait for them.
 * Blocking sends are timed by themselves, posted sends by their completion, NCCL's by the device (if it is
 * asked). */
#pragma once

#include "notice/message/messages.h"

typedef struct sl_traffic_link {
    int from, to; /* ranks of the world */
    int64_t messages, bytes, timed;
    double busy_ms;  /* of all timed messages together */
    double usual_ms; /* per message, in the first profile taken while nothing was slow; NaN: unknown */
    int64_t round;   /* of its profile */
    uint64_t number; /* grows with each report: a value larger than the last one seen is new */
} sl_traffic_link;

typedef struct sl_traffic_pair sl_traffic_pair;
typedef struct sl_traffic_member sl_traffic_member;

typedef struct sl_traffic {
    sl_traffic_link *link;
    size_t links, link_room;
    uint64_t number; /* of the last report */
    int64_t round;
    /* internal */
    sl_traffic_pair *pair;
    size_t pairs, pair_room;
    sl_traffic_member *member; /* by hash; a power of two */
    size_t members, member_room;
    int *first_pair, *first_link; /* by sender, -1: none */
    size_t senders, pair_senders, link_senders;
} sl_traffic;

/** All zero is empty. */
void sl_traffic_close(sl_traffic *traffic);

/** Reads a message of the log of profiles; a new round restarts the counts. `calm`: nothing is slow, so the
 * values seen are usual. Ignores invalid calls and ranks. SL_ENOMEM. */
sl_status sl_traffic_take(sl_traffic *traffic, const sl_message_head *head, const sl_call *calls, int calm);
