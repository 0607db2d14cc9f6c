/* The portfolio: schedules for any placement by several rules, as starting points of a search. The first
 * rules found the best order of random problems with slow links and devices most often; then come those that
 * added most to them. */
#pragma once

#include "plan/bound/relaxation.h"
#include "plan/pipeline/order.h"

/** Number of rules. */
#define SL_PORTFOLIO 23

/** Cost of a rule and the measurement of its order, in replayed ops (plan/search/improve.h) per op of the
 * order. */
#define SL_PORTFOLIO_WORK 25

/** The order with minimal memory: one microbatch after the other, forward and backward through all stages.
 * Free with sl_order_free. */
sl_status sl_serial_order(const sl_problem *problem, sl_order *order);

/** Whether the rule is worth trying if something else fits. Never fails. */
int sl_portfolio_suits(const sl_problem *problem, int index);

/** The order of rule `index`, within the memory limit, in the problem's parts. SL_ENONE: the rule gets stuck
 * at the limit, or is for another placement. Free with sl_order_free. */
sl_status sl_portfolio_order(const sl_relaxation *relaxation, int index, sl_order *order);

/** A list schedule with at most cap[stage / ranks] microbatches between F and W of a stage, with a patience
 * in quarters of the longest op. Errors as sl_portfolio_order. Free with sl_order_free. */
sl_status sl_portfolio_capped(const sl_relaxation *relaxation, const int *cap, int patience, sl_order *order);
