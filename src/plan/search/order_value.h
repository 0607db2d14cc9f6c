/* Only the value of an order, for searches that try many. */
#pragma once

#include "base/time.h"
#include "plan/pipeline/order.h"

/* Cost of a measurement in replayed ops (plan/search/improve.h) per op of the order: mostly the lowering. */
#define SL_MEASURE_WORK 12

/** The order's value under the problem's objective; SL_TIME_NEVER if it exceeds the memory limit. *memory
 * (may be NULL): of the rank that needs most. SL_EINVAL: not a schedule; SL_ENOMEM. */
sl_status sl_measure(const sl_problem *problem, const sl_order *order, sl_time *value, double *memory);
