/* The order of messages of a plan (regime fifo): the best of PyTorch's lowering, of the order's own, and of
 * those that a replay decides by several rules (greedy.c). */
#pragma once

#include "plan/pipeline/order.h"

/** Gives a valid order its best order of issue within the ranks' receive buffers: none of its own if
 * PyTorch's lowering is as good. Changes nothing in other regimes, or if messages that never wait for each
 * other would not bring the makespan below `cutoff`. SL_EINVAL: the ops alone deadlock; SL_ENOMEM.
 */
sl_status sl_messages_plan(const sl_problem *problem, sl_time cutoff, sl_order *order);
