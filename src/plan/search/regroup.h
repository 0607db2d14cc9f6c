/* Full backwards where they pay: I and W of one microbatch, run as one B, may take less time (PyTorch, stage
 * 0) but let the gradient go later. */
#pragma once

#include "base/clock.h"
#include "plan/pipeline/order.h"

/** Joins I with the W right behind it where that saves time and the makespan gets no longer: all of a rank,
 * else one by one, until the limit, or until *work (counted down, in ops replayed) is done. *makespan is that
 * of `order`, and becomes the new one. Orders in parts or with pairs stay as they are. */
sl_status sl_regroup(const sl_problem *problem, const sl_limit *until, int64_t *work, sl_order *order,
                     sl_time *makespan);
