/* A breakdown of a plan's time, and the cost of an extra millisecond on a link or op.
 *
 * The makespan is the sum of these parts: the average work of a rank; the additional work of the busiest
 * rank; idle time due to the order, on free links; collectives; the links' delays (dependency); ranks blocked
 * by their messages (blocking). The costs are differences of two replays of the same order: the additional
 * iteration time if each message of a link, or each op of a stage, takes 1 ms more. */
#pragma once

#include "plan/search/plan.h"

typedef struct sl_link_cost {
    int from, to;
    double cost; /* ms of makespan per ms of latency */
} sl_link_cost;

typedef struct sl_op_cost {
    int stage, kind;
    double cost; /* ms of makespan per ms of each such op (all its parts together) */
} sl_op_cost;

typedef struct sl_attribution {
    sl_time work;        /* mean over ranks */
    sl_time imbalance;   /* work of the busiest rank, minus that */
    sl_time fill;        /* the order on free links without collectives, minus the work of the busiest rank */
    sl_time collectives; /* gathers and reductions, on free links */
    sl_time dependency, blocking; /* sl_plan.dependency_loss, blocking_loss */
    int links, ops;
    sl_link_cost *link; /* directed links that carry messages, by from, then to */
    sl_op_cost *op;     /* stages and kinds of the order, by stage, then kind */
} sl_attribution;

/** The sum of the six parts is plan->makespan. The plan must be one of this problem. O((links + 4 stages) *
 * ops). Free with sl_attribution_free, also on error. */
sl_status sl_attribute(const sl_problem *problem, const sl_plan *plan, sl_attribution *attribution);
void sl_attribution_free(sl_attribution *attribution);
