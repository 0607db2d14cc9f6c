/* The network of a running job, measured on request and periodically: every link of a pipeline in use, and
 * every pair of processes that hold the same stages, slow or not. The times of sums over replicas show that
 * some link of a stage is slow, but not which, and nothing about unused links; decisions about the topology
 * need both.
 *
 * The ping test of run/journal/ping.h, over the path in use: the transport's for pipelines, the data group's
 * messages for replicas, so their emulation applies here. Pairs without a common rank run at the same time:
 * neighbors of a pipeline in 2 rounds (3 if they form a ring of an odd number), D replicas in D - 1 rounds (D
 * if D is odd). A round takes a few milliseconds, or on a slow link SL_NETWORK_BUDGET, or longer until its
 * messages have gone there and back four times. They are of SL_NETWORK_BYTES, or if smaller, of a stage's
 * message (between stages) or of a replica's share of a sum (between replicas).
 *
 * It happens between two iterations and is part of neither: the `period` of the previous iteration excludes
 * it, and no op, message or sum of an iteration is under way. */
#pragma once

#include "run/arrange/trainer.h"
#include "run/journal/ping.h"

#define SL_NETWORK_BUDGET (20 * SL_MS)
#define SL_NETWORK_BYTES ((size_t)256 << 10)

/* One direction between two processes. */
typedef struct sl_network_link {
    int from, to;    /* initial world ranks in the attempt (sl_trainer.home) */
    int replicas;    /* 1: of one stage in two replicas; 0: neighbors in a pipeline */
    sl_time latency; /* alpha */
    double per_byte; /* beta, ns; 0: too fast to measure */
} sl_network_link;

/** The pairs to measure: *count pairs of world ranks in the order in which they run (neighbors, then
 * replicas), and the round of each: pairs of a round have no common rank. Room for
 * sl_network_profile_max(run) of either. Pure; SL_ENOMEM. */
int sl_network_profile_max(const sl_run *run);
sl_status sl_network_profile_pairs(const sl_run *run, sl_ping_pair *pairs, int *round, int *count);

/** Measures. Collective over the world, between two iterations; `iteration` comes next, and links are
 * emulated as of it. Updates the leader's table; an event `profile` names the slowest link. SL_EPEER,
 * SL_ENOMEM. */
sl_status sl_network_profile_measure(sl_trainer *t, int iteration);

/** The leader's latest measurement: [*links]. */
const sl_network_link *sl_network_profile_links(const sl_trainer *t, int *links);

/** The ping test before the run's first iteration: link[ranks * ranks] of a pipeline on the leader, all zero
 * if it has one rank. Collective. */
sl_status sl_network_profile_ping(sl_trainer *t, sl_ping_link *link);

/** The leader: whether the next measurement is due (adaptation.profile_every_s). */
int sl_network_profile_due(const sl_trainer *t);

sl_status sl_network_profile_open(sl_trainer *t);
void sl_network_profile_close(sl_trainer *t);
