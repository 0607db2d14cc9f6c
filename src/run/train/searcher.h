/* A longer search for a plan than fits between two iterations: on a thread of its own, which runs when
 * nothing else wants its processor (SCHED_IDLE), beside training. One question at a time; it talks to nobody.
 */
#pragma once

#include "plan/search/plan.h"

typedef struct sl_searcher sl_searcher;

/** Nothing runs before the first question. SL_ENOMEM. */
sl_status sl_searcher_open(sl_searcher **searcher);
/** Ends a search under way. NULL is fine. */
void sl_searcher_close(sl_searcher *searcher);

/** Searches for a plan of `problem` from `known` and the families; both are copied. Nothing where one is
 * under way or its answer was not taken yet. SL_ENOMEM, SL_ESYS. */
sl_status sl_searcher_ask(sl_searcher *searcher, int replica, const sl_problem *problem,
                          const sl_order *known);
/** Whether a question may be asked. */
int sl_searcher_is_idle(const sl_searcher *searcher);
/** The answer, once: 1, and the caller's plan (sl_plan_free); 0: there is none (yet). */
int sl_searcher_take(sl_searcher *searcher, int *replica, sl_plan *plan);
