/* A search for a plan that is too long to fit between two iterations: on its own thread, concurrent with
 * training, which runs only when its processor is otherwise idle (SCHED_IDLE). One question at a time; no
 * communication. */
#pragma once

#include "plan/search/plan.h"

typedef struct sl_searcher sl_searcher;

/** Starts nothing before the first question. SL_ENOMEM. */
sl_status sl_searcher_open(sl_searcher **searcher);
/** Ends a search under way. NULL is fine. */
void sl_searcher_close(sl_searcher *searcher);

/** Searches for a plan of `problem` from `known` and the families; both are copied. Does nothing if a search
 * is under way or its answer was not taken yet. SL_ENOMEM, SL_ESYS. */
sl_status sl_searcher_ask(sl_searcher *searcher, int replica, const sl_problem *problem,
                          const sl_order *known);
/** Whether a question may be asked. */
int sl_searcher_is_idle(const sl_searcher *searcher);
/** The answer, once: 1, and ownership of the plan passes to the caller (sl_plan_free); 0: none (yet). */
int sl_searcher_take(sl_searcher *searcher, int *replica, sl_plan *plan);
