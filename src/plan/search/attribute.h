/* A breakdown of a plan's time, and the cost of an extra millisecond on a link or op.
 *
 * The makespan is the sum of these parts: the average work of a rank; the additional work of the busiest
 * rank; idle time due to the order, on free links; collectives; the links' delays (dependency); ranks blocked
 * by their messages (blocking). The costs are differences of two replays of the same order: the additional
 * iteration time if each message of a link, or each op of a stage, takes 1 ms more. */
#pragma once

#include "plan/search/plan.h"

/** The sum of the six parts is plan->makespan. The plan must be one of this problem. O((links + 4 stages) *
 * ops). Free with sl_attribution_free, also on error. */
sl_status sl_attribute(const sl_problem *problem, const sl_plan *plan, sl_attribution *attribution);
void sl_attribution_free(sl_attribution *attribution);

/** The same as a part of the plan: plan->attribution. */
sl_status sl_plan_add_attribution(const sl_problem *problem, sl_plan *plan);
