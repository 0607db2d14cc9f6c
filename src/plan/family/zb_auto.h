/* zb-auto: Zero Bubble's automatic schedule (Qi et al., ICLR 2024, section 3) for a line of ranks, any times
 * and a memory limit: its 1p and 2p are those of the memory of 1f1b, once and twice. A rank runs as many
 * forwards as end before its first gradient can come, or within its memory; then F and I in turn, and W where
 * it fits. The last of the forwards may delay the gradient a little instead of leaving a gap; the objective
 * decides how much. */
#pragma once

#include "plan/pipeline/order.h"

/** The best order within the memory limit, in the problem's parts. SL_ENONE: no schedule fits. O(tries * ops
 * * log ranks). Free with sl_order_free. */
sl_status sl_family_zb_auto(const sl_problem *problem, sl_order *order);

#define SL_ZB_AUTO_TRIES 8
