/* Local search: simulated annealing on the critical path of an order. Only another op at the front or at the
 * rear of a run of critical ops can shorten the path, so most moves bring one there, or take the one there
 * inside; some swap any two critical neighbours, and some change the warm-up of one rank, or of all before it
 * too. Every candidate is timed by the one timing model (plan/timing/replay.h); none breaks a dependency or
 * the memory limit, which depends on a rank's sequence alone.
 *
 * A chain of moves is a function of its seed and its work; how far it comes depends on the limit. Weight
 * gradients stay in ascending microbatches on every stage. */
#pragma once

#include "base/clock.h"
#include "plan/pipeline/order.h"

typedef struct sl_improve_options {
    sl_limit until;
    int64_t work; /* ops that may be replayed; also how the chain cools down */
    uint64_t seed;
    double heat;    /* the temperature that it begins with, in mean op times; above 0.01 */
    sl_time target; /* a proven bound: the search ends when it is met */
} sl_improve_options;

typedef struct sl_improve_result {
    sl_time makespan;
    int64_t
        work; /* ops that were replayed, and a few for every move that came to nothing; 0: none can be made */
} sl_improve_result;

/** Replaces `order`, a valid one within the memory limit, by the best found. SL_ENOMEM, SL_EINVAL. */
sl_status sl_improve(const sl_problem *problem, const sl_improve_options *options, sl_order *order,
                     sl_improve_result *result);
