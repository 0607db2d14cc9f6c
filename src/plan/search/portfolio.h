/* The portfolio: schedules for any placement under several rules, from which a search starts. Rules that
 * found the best order of random problems with slow links and devices most often, and then those that added
 * most to them, come first. */
#pragma once

#include "plan/bound/relaxation.h"
#include "plan/pipeline/order.h"

/** How many rules there are. */
#define SL_PORTFOLIO 23

/** What a rule and the measurement of its order cost, in ops replayed (plan/search/improve.h) for each of the
 * order's. */
#define SL_PORTFOLIO_WORK 25

/** The least that any schedule holds: one microbatch after the other, forwards and backwards through all
 * stages. Free with sl_order_free. */
sl_status sl_serial_order(const sl_problem *problem, sl_order *order);

/** Whether the rule is worth a try while something else fits. Never fails. */
int sl_portfolio_suits(const sl_problem *problem, int index);

/** The order of rule `index`, within the memory limit, in the problem's parts. SL_ENONE: the rule gets stuck
 * there, or is for another placement. Free with sl_order_free. */
sl_status sl_portfolio_order(const sl_relaxation *relaxation, int index, sl_order *order);
