/* Local search: simulated annealing on the critical path of an order. Only a different op at the start or end
 * of a run of critical ops can shorten the path, so most moves put one there, or move the present one inside.
 * Some swap any two critical neighbors, and some change the warm-up of one rank, or also of all before it.
 * Every candidate is timed by the one timing model (plan/timing/replay.h); none violates a dependency or the
 * memory limit, which depends only on a rank's sequence.
 *
 * Ranks that keep an order wait for one that leaves it, so some moves exchange the ops of two microbatches on
 * many ranks. Others cross the memory limit, and move later releases ahead until it is kept.
 *
 * A chain of moves is a function of its seed and its work; if the limit ends it, it has cooled by then.
 * Weight gradients stay in ascending microbatches on every stage. */
#pragma once

#include "base/clock.h"
#include "plan/pipeline/order.h"

typedef struct sl_improve_options {
    sl_limit until;
    int64_t work; /* budget in replayed ops; also sets the cooling */
    uint64_t seed;
    double heat;    /* initial temperature, in mean op times; above 0.01 */
    sl_time target; /* a proven bound: the search ends when it is reached */
} sl_improve_options;

typedef struct sl_improve_result {
    sl_time value; /* of the objective */
    int64_t work;  /* replayed ops, plus a few per unsuccessful move; 0: no move is possible */
} sl_improve_result;

/** Replaces `order`, a valid one within the memory limit, by the best found, without issues: in regime fifo a
 * replay decides them (sl_replayer_order_messages). SL_ENOMEM, SL_EINVAL. */
sl_status sl_improve(const sl_problem *problem, const sl_improve_options *options, sl_order *order,
                     sl_improve_result *result);
