/* A plan with jittering delays: the distribution of its makespan over draws.
 *
 * In a draw every message has its link's minimum latency plus an independent exponential delay with the
 * link's mean, so one may overtake another; the ranks keep their order. The delay is a function of seed, draw
 * and the message's content, so two orders of one problem get the same delays and can be compared draw by
 * draw. */
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

/** Replays `program` in the problem's regime for each of 1 to SL_MAX_DRAWS draws. SL_EINVAL: another number
 * of draws, or a deadlock. O(draws * ops). */
sl_status sl_jitter_replay(const sl_problem *problem, const sl_program *program, int draws, uint64_t seed,
                           sl_jitter *jitter);
