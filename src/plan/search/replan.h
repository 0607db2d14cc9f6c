/* A new order for a running job, between two of its iterations: the shortest of all families that fit the
 * problem's placement and memory limit, of given orders, and of a local search from the best of them.
 *
 * Whatever a caller asks for takes the same steps every time: the search is bounded by work, in ops replayed,
 * instead of time. Measured by bench/adapting/replan.py --cost on an AMD EPYC with 2 cores, in time of the
 * processor: 9 to 15 ns per op replayed, growing from 4 to 32 ranks. With SL_REPLAN_WORK a plan takes up to 6
 * ms for 16 ranks and 64 microbatches, and 12 ms for 32 and 128, most of which are families; it is less if
 * the bound is met. Problems with host memory take longer, as their families do (plan/family/hosted.h). */
#pragma once

#include "plan/search/plan.h"

/** Work that takes about 5 ms; 100 million ops take about a second. */
#define SL_REPLAN_WORK 500000

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
 * Laborious families (plan/family/family.h) are left out if one takes more than a quarter of `work`, unless
 * nothing else fits or there is no search. SL_ENONE: nothing fits into the memory limit. SL_ENOMEM. Free with
 * sl_plan_free, also on error. */
sl_status sl_replan(const sl_problem *problem, const sl_replan_options *options, sl_plan *plan);
