/* The portfolio: list schedules for any placement under several rules, from which a search starts. */
#ifndef SL_PLAN_SEARCH_PORTFOLIO_H
#define SL_PLAN_SEARCH_PORTFOLIO_H

#include "plan/bound/relaxation.h"
#include "plan/pipeline/order.h"

/** How many rules there are. */
#define SL_PORTFOLIO 20

/** What a rule and the measurement of its order cost, in ops replayed (plan/search/improve.h) for each of the
 * order's. */
#define SL_PORTFOLIO_WORK 25

/** The least that any schedule holds: one microbatch after the other, forwards and backwards through all
 * stages. Free with sl_order_free. */
sl_status sl_serial_order(const sl_problem *problem, sl_order *order);

/** The order of rule `index`, within the memory limit, in the problem's parts. SL_ENONE: the rule gets stuck
 * there. Free with sl_order_free. */
sl_status sl_portfolio_order(const sl_relaxation *relaxation, int index, sl_order *order);

#endif
