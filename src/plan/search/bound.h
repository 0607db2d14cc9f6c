/* A lower bound on the makespan of every schedule of a problem, whatever its order, in both regimes. */
#ifndef SL_PLAN_SEARCH_BOUND_H
#define SL_PLAN_SEARCH_BOUND_H

#include "plan/pipeline/problem.h"

/** ns; linear placement. Two arguments per rank and two per link, see bound.c. SL_ENOMEM. */
sl_status sl_lower_bound(const sl_problem *problem, sl_time *bound);

#endif
