/* cross-ud-sub: the greedy of CrossPipe (section 4.2) for a line of ranks with slow links and a memory limit,
 * with W in the problem's parts. The paper does not define which op a rank prefers if several could start, so
 * a few rules are tried (plan/family/greedy_pass.h) and the timing model compares them. */
#pragma once

#include "plan/pipeline/order.h"

/** The best order within the memory limit, in the problem's parts; all parts of F and I adjacent. SL_ENONE:
 * no schedule fits. O(rules * ops * log ranks). Free with sl_order_free. */
#define SL_CROSS_UD_SUB_TRIES 26
sl_status sl_cross_ud_sub(const sl_problem *problem, sl_order *order);
