/* Full backwards if they save time: I and W of one microbatch, run as one B, may take less time (PyTorch,
 * stage 0) but send the gradient later. */
#pragma once

#include "base/clock.h"
#include "plan/pipeline/order.h"

/** Joins I with the W right after it if that saves time and does not lengthen the value: all of a rank,
 * else one by one, until the limit, or until *work (counted down, in replayed ops) is used up. *value is
 * that of `order`, and becomes the new one. Orders in parts or with pairs are not changed. */
sl_status sl_regroup(const sl_problem *problem, const sl_limit *until, int64_t *work, sl_order *order,
                     sl_time *value);
