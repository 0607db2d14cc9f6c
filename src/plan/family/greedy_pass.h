/* One pass of the greedy algorithm for slow links in a line of ranks (CrossPipe, section 4.2, algorithm 1).
 * It is event-driven: the rank that can start an op earliest comes next. F and I run whole, W in the
 * problem's parts.
 *
 * The choice of a rank depends on its phase. Warm-up: F. Steady: F and I alternate, or by the rule.
 * Tear-down, after all F: I before W. A part of a W runs if memory prevents an F, and in a bubble. Messages
 * take the earliest window of their wire that is long enough (plan/family/windows.h). */
#pragma once

#include "plan/pipeline/order.h"

/* The preference of a rank in its steady phase if both F and I could start; SL_STRICT waits for the kind that
 * is next, unless memory forbids it. */
typedef enum sl_steady { SL_ALTERNATE, SL_INPUT_FIRST, SL_FORWARD_FIRST, SL_STRICT } sl_steady;

typedef struct sl_phase_rule {
    sl_steady steady;
    const int *warmup; /* [ranks] forwards before the first I; NULL: until the first I has come */
    int overrun;       /* quarters of a part that a W may delay an expected F or I: 0 to 4 */
    int weights_first; /* W right after its I, as in a full backward */
} sl_phase_rule;

/** The order that the rule gives within the memory limit. The problem's placement must be linear. SL_ENONE:
 * the ranks get stuck because the limit is too low. O(ops * log ranks). Free with sl_order_free. */
sl_status sl_phases_order(const sl_problem *problem, const sl_phase_rule *rule, sl_order *order);
