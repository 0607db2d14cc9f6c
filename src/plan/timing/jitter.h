/* How a plan fares when delays jitter: the distribution of its makespan over draws.
 *
 * In a draw every message takes its link's least latency and an exponential delay of the link's mean on top,
 * each on its own, so one may overtake another; the ranks keep to their order. The delay is a function of
 * seed, draw and what the message carries, so two orders of one problem meet the same delays and can be
 * compared draw by draw. */
#pragma once

#include "plan/lower/program.h"

#define SL_MAX_DRAWS 10000000

typedef struct sl_jitter {
    int draws;
    uint64_t seed;
    double mean; /* ns */
    sl_time least, most;
    sl_time p10, p50, p90, p99; /* the value that a share of the draws does not exceed (nearest rank) */
} sl_jitter;

/** Replays `program` in the problem's regime for each of 1 to SL_MAX_DRAWS draws. SL_EINVAL: another number,
 * or a deadlock. O(draws * ops). */
sl_status sl_jitter_replay(const sl_problem *problem, const sl_program *program, int draws, uint64_t seed,
                           sl_jitter *jitter);
