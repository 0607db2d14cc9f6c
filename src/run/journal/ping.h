/* What the links are before the first iteration: a short ping test over the path in use, from which each
 * direction's latency and bandwidth follow (the alpha-beta model: a message of n bytes takes alpha + n beta).
 *
 * On every link a few messages of two sizes go there and back, one at a time, so that a message never waits
 * for another. Both ends note when they sent and when the other's message was published to them; where they
 * share a clock, or their clocks are known better than what is measured, each direction is known by itself,
 * else both count as half of the round trip. Links are emulated as in the iteration that comes next, so the
 * test sees what the messages of that iteration will see.
 *
 * Plans are not made from it: the first plan follows from the run file alone, so that a run starts the same
 * way everywhere, and it is the plan that relief returns to. What is slow from the start shows in the first
 * iterations like any other trouble. */
#pragma once

#include "notice/record/offset.h"
#include "run/binding/run_groups.h"
#include "run/transport/transport.h"

#define SL_PING_MAX 14 /* messages each way on a link, of either size in turn */

/* Two ranks that exchange messages. The first one begins. */
typedef struct sl_ping_pair {
    int32_t a, b;
} sl_ping_pair;

/* What one end knows of one round on one link: its own clock. */
typedef struct sl_ping_half {
    int32_t pair, round;
    int32_t rank;     /* of its pipeline */
    int32_t pipeline; /* which one: replica * tensor ranks + tensor */
    int32_t last;     /* nonzero: no round followed */
    int64_t bytes;
    sl_time sent, heard; /* its message handed over; the other's published to it */
} sl_ping_half;

/* A direction of a link. */
typedef struct sl_ping_link {
    int rounds;      /* that it is based on; 0: not measured */
    sl_time latency; /* alpha */
    double per_byte; /* beta, ns; 0: too fast to tell */
} sl_ping_link;

/* How messages of the test travel to and from the others that pairs name. */
typedef struct sl_ping_way {
    void *object;
    /** Hands message `round` over and sees it off. */
    sl_status (*say)(void *object, int peer, int round, const void *data, size_t bytes);
    /** Waits for it; *heard: when it was there. */
    sl_status (*hear)(void *object, int peer, int round, void *data, size_t bytes, sl_time *heard);
} sl_ping_way;

/** sl_ping over any way: `budget` is the time that a pair may take before it stops at two rounds of either
 * size. */
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

/** Each pair of ranks with neighbouring stages once, into pairs[stages] and its round into round[stages]:
 * ascending; the pairs of a round have no rank in common, so that they go at the same time. Returns how many
 * there are. */
int sl_ping_pairs(const sl_problem *shape, sl_ping_pair *pairs, int *round);

/** Exchanges messages of at most `bytes` on those of pairs[count] that name `rank`, in their order, which is
 * the same on all ranks. half[count * SL_PING_MAX] takes what this rank saw, *halves how much. At least two
 * rounds of either size on each link; as many more as fit into a quarter of a second. SL_EPEER: the peer is
 * gone, or nothing came for `patience`. */
sl_status sl_ping(sl_transport *transport, sl_clock *clock, int rank, const sl_ping_pair *pairs, int count,
                  size_t bytes, sl_time patience, sl_ping_half *half, int *halves);

/** link[from * ranks + to] from what both ends of the pairs saw; clock[ranks] against rank 0's. The slope is
 * the median of those between all messages of different sizes, the latency the median of what that leaves
 * (Theil 1950, Sen 1968): a few late wake-ups do not count; neither is below 0. The first round of each size
 * is left out, unless a slow link allowed for the fewest only. Incomplete halves are ignored. SL_ENOMEM. */
sl_status sl_ping_fit(const sl_ping_half *half, int halves, const sl_ping_pair *pairs, int count,
                      const sl_offset *clock, int ranks, sl_ping_link *link);

/** The same by pair: there and back of each into found[count], all zero where nothing was measured;
 * clock[rank] of those that pairs name. */
sl_status sl_ping_fit_pairs(const sl_ping_half *half, int halves, const sl_ping_pair *pairs, int count,
                            const sl_offset *clock, sl_ping_link (*found)[2]);

/** All of it, on all pipelines of a run at once: collective over the world. Of the rank that leads link[ranks
 * * ranks] are filled in for the links between neighbouring stages; of several replicas and tensor ranks the
 * slowest counts. offsets[world] are known there. */
sl_status sl_ping_all(const sl_run *run, const sl_groups *groups, sl_transport *transport, sl_clock *clock,
                      double bytes, const sl_offset *offsets, sl_ping_link *link);

/** Time of a message of `bytes`. */
static inline sl_time sl_ping_time(const sl_ping_link *link, double bytes) {
    return link->latency + (sl_time)(link->per_byte * bytes);
}
