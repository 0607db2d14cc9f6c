/* The links before the first iteration: a short ping test over the path in use, which gives each direction's
 * latency and bandwidth (the alpha-beta model: a message of n bytes takes alpha + n beta).
 *
 * On every link a few messages of two sizes go there and back, one at a time, so that a message never waits
 * for another. Both ends record when they sent and when the other's message was published to them. If they
 * share a clock, or their clock offset is known better than the measured times, each direction is measured
 * separately; otherwise both count as half of the round trip. Links are emulated as in the next iteration, so
 * the test sees what its messages will see.
 *
 * Plans are not made from it: the first plan depends only on the run file, so that a run starts the same way
 * everywhere, and it is the plan that relief returns to. A component that is slow from the start shows in the
 * first iterations like any other slowdown. */
#pragma once

#include "notice/record/offset.h"
#include "run/binding/run_groups.h"
#include "run/transport/transport.h"

#define SL_PING_MAX 14 /* messages each way on a link, alternating in size */

/* Two ranks that exchange messages. The first one starts. */
typedef struct sl_ping_pair {
    int32_t a, b;
} sl_ping_pair;

/* One end's record of one round on one link, on its own clock. */
typedef struct sl_ping_half {
    int32_t pair, round;
    int32_t rank;     /* of its pipeline */
    int32_t pipeline; /* its number: replica * tensor ranks + tensor */
    int32_t last;     /* nonzero: the last round */
    int64_t bytes;
    sl_time sent, heard; /* its message handed over; the other's published to it */
} sl_ping_half;

/* One direction of a link. */
typedef struct sl_ping_link {
    int rounds;      /* used rounds; 0: not measured */
    sl_time latency; /* alpha */
    double per_byte; /* beta, ns; 0: too fast to measure */
} sl_ping_link;

/* The transport of the test's messages to and from the peers in the pairs. */
typedef struct sl_ping_way {
    void *object;
    /** Hands message `round` over and waits until it is sent. */
    sl_status (*say)(void *object, int peer, int round, const void *data, size_t bytes);
    /** Waits for it; *heard: time of its arrival. */
    sl_status (*hear)(void *object, int peer, int round, void *data, size_t bytes, sl_time *heard);
} sl_ping_way;

/** sl_ping over any transport: `budget` is the time after which a pair stops, after at least two rounds of
 * either size. */
sl_status sl_ping_over(const sl_ping_way *way, sl_clock *clock, int rank, const sl_ping_pair *pairs,
                       int count, size_t bytes, sl_time budget, sl_ping_half *half, int *halves);

/* Over a transport; peers are its ranks. */
typedef struct sl_ping_transport {
    sl_transport *transport;
    sl_clock *clock;
    sl_time patience; /* for one message */
} sl_ping_transport;
sl_status sl_ping_say(void *transport, int peer, int round, const void *data, size_t bytes);
sl_status sl_ping_hear(void *transport, int peer, int round, void *data, size_t bytes, sl_time *heard);

/** Each pair of ranks with neighboring stages once, into pairs[stages] and its round into round[stages]:
 * ascending; the pairs of a round have no common rank, so they run at the same time. Returns the number of
 * pairs. */
int sl_ping_pairs(const sl_problem *shape, sl_ping_pair *pairs, int *round);

/** Exchanges messages of at most `bytes` on those of pairs[count] that name `rank`, in their order, which is
 * the same on all ranks. half[count * SL_PING_MAX] receives this rank's records, *halves their number. At
 * least two rounds of either size on each link, and as many more as fit into a quarter of a second.
 * SL_EPEER: the peer is gone, or nothing arrived for `patience`. */
sl_status sl_ping(sl_transport *transport, sl_clock *clock, int rank, const sl_ping_pair *pairs, int count,
                  size_t bytes, sl_time patience, sl_ping_half *half, int *halves);

/** link[from * ranks + to] from the records of both ends of the pairs; clock[ranks] relative to rank 0's. The
 * slope is the median of those between all messages of different sizes, the latency the median of the
 * remainders (Theil 1950, Sen 1968): a few late wake-ups do not matter; neither is below 0. The first round
 * of each size is excluded, unless a slow link allowed only the minimum. Incomplete halves are ignored.
 * SL_ENOMEM. */
sl_status sl_ping_fit(const sl_ping_half *half, int halves, const sl_ping_pair *pairs, int count,
                      const sl_offset *clock, int ranks, sl_ping_link *link);

/** The same by pair: both directions of each into found[count], all zero if nothing was measured; clock[rank]
 * of those in the pairs. */
sl_status sl_ping_fit_pairs(const sl_ping_half *half, int halves, const sl_ping_pair *pairs, int count,
                            const sl_offset *clock, sl_ping_link (*found)[2]);

/** The whole test, on all pipelines of a run at the same time: collective over the world. On the leader,
 * link[ranks * ranks] is filled in for the links between neighboring stages; of several replicas and tensor
 * ranks the slowest counts. offsets[world] are known there. */
sl_status sl_ping_all(const sl_run *run, const sl_groups *groups, sl_transport *transport, sl_clock *clock,
                      double bytes, const sl_offset *offsets, sl_ping_link *link);

/** Time of a message of `bytes`. */
static inline sl_time sl_ping_time(const sl_ping_link *link, double bytes) {
    return link->latency + (sl_time)(link->per_byte * bytes);
}
