/* Who sends to whom, out of the calls of a profile: messages, bytes and time of each direction between two
 * ranks of the world. Fed with the messages of the log of profiles as they come, by the controller and by
 * those who look on (src/dashboard); a link is told once its sender's part is whole.
 *
 * MPI and Gloo name ranks of the world. NCCL names ranks of a communicator: who they are in the world is
 * known from the calls that those ranks make on it themselves, which may come later; such links wait for
 * that. Timed are blocking sends by themselves, posted ones by their completion, NCCL's by the device (where
 * it is asked). */
#pragma once

#include "notice/message/messages.h"

typedef struct sl_traffic_link {
    int from, to; /* ranks of the world */
    int64_t messages, bytes, timed;
    double busy_ms; /* of the timed ones together */
    double
        usual_ms;  /* a message in the first profile that was taken while nothing was slow; NaN: not known */
    int64_t round; /* of the profile that it is of */
    uint64_t number; /* grows with each telling: what is larger than the last that was seen is news */
} sl_traffic_link;

typedef struct sl_traffic_pair sl_traffic_pair;
typedef struct sl_traffic_member sl_traffic_member;

typedef struct sl_traffic {
    sl_traffic_link *link;
    size_t links, link_room;
    uint64_t number; /* of the last telling */
    int64_t round;
    /* inside */
    sl_traffic_pair *pair;
    size_t pairs, pair_room;
    sl_traffic_member *member; /* by hash; a power of two */
    size_t members, member_room;
    int *first_pair, *first_link; /* by sender, -1: none */
    size_t senders, pair_senders, link_senders;
} sl_traffic;

/** All zero is empty. */
void sl_traffic_close(sl_traffic *traffic);

/** A message of the log of profiles; another round begins counts anew. `calm`: nothing is slow, so that what
 * is seen is usual. Calls and ranks that make no sense are passed over. SL_ENOMEM. */
sl_status sl_traffic_take(sl_traffic *traffic, const sl_message_head *head, const sl_call *calls, int calm);
