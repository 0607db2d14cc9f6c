/* What an order takes, and nothing else about it: for searches that look at many. */
#pragma once

#include "base/time.h"
#include "plan/pipeline/order.h"

/* What a measurement costs, in ops replayed (plan/search/improve.h) for each of the order's: most of it is
 * the lowering. */
#define SL_MEASURE_WORK 12

/** The order's makespan; SL_TIME_NEVER where it passes the memory limit. *memory (may be NULL): of the rank
 * that needs most. SL_EINVAL: it is no schedule; SL_ENOMEM. */
sl_status sl_measure(const sl_problem *problem, const sl_order *order, sl_time *makespan, double *memory);
