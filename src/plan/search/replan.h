/* A new order for a running job, between two of its iterations: the shortest of all families that fit the
 * problem's placement and memory limit, of given orders, and of a local search from the best of them.
 *
 * Whatever a caller asks for takes the same steps every time: the search is bounded by work, in ops replayed,
 * instead of time. */
#ifndef SL_PLAN_SEARCH_REPLAN_H
#define SL_PLAN_SEARCH_REPLAN_H

#include "plan/search/plan.h"

/** What takes about 5 ms. */
#define SL_REPLAN_WORK 700000

typedef struct sl_replan_options {
    const char *schedule;         /* the family that goes first among equal makespans; "auto" or NULL: none */
    const sl_order *const *known; /* [knowns] orders to start from as well: the running one, the first one.
                                     One that is no schedule of this problem is passed over */
    int knowns;
    int64_t work; /* ops that the search may replay. 0: no search, only families and known orders */
    uint64_t seed;
    const atomic_int *stop; /* nonzero: the search ends with the best so far. NULL: nobody says so */
} sl_replan_options;

/** Makes a plan that is no longer than that of any family or known order that fits, and never over the memory
 * limit. Weight gradients come in ascending microbatches. A function of problem and options alone, unless
 * `stop` ends it; no threads. `plan->schedule` is the family's name, "known" or "search".
 * Laborious families (plan/family/family.h) are left out if trying one takes more than `work`, unless nothing
 * else fits or there is no search. SL_ENONE: nothing fits into the memory limit. SL_ENOMEM. Free with
 * sl_plan_free, also on error. */
sl_status sl_replan(const sl_problem *problem, const sl_replan_options *options, sl_plan *plan);

#endif
