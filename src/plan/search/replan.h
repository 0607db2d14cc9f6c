/* A new order for a running job, between two of its iterations: the shortest of all families that fit the
 * problem's placement and memory limit, of given orders, and of a local search from the best of them.
 *
 * Equal calls take the same steps: the search is bounded by work, in replayed ops, not by time. Measured by
 * bench/adapting/replan.py --cost on an AMD EPYC with 2 cores, in CPU time: 9 to 15 ns per replayed op,
 * growing from 4 to 32 ranks. With SL_REPLAN_WORK a plan takes up to 6 ms for 16 ranks and 64 microbatches,
 * and 12 ms for 32 and 128, mostly for families; less if the bound is reached. Problems with host memory take
 * longer because of their families (plan/family/hosted.c). */
#pragma once

#include "plan/search/plan.h"

/** Work that takes about 5 ms; 100 million ops take about a second. */
#define SL_REPLAN_WORK 500000

typedef struct sl_replan_options {
    const char *schedule;         /* the family preferred among equal values; "auto" or NULL: none */
    const sl_order *const *known; /* [knowns] additional orders to start from: the running one, the first one.
                                     One that is not a schedule of this problem is skipped */
    int knowns;
    const sl_order *ends; /* backwards of a rank's stages end in the order in which its do; NULL: in any */
    int64_t work;         /* search budget in replayed ops. 0: no search, only families and known orders */
    uint64_t seed;
    const atomic_int *stop; /* nonzero: the search ends with the best so far; or NULL */
} sl_replan_options;

/** Makes a plan that is at most as long as that of any fitting family or known order, and within the memory
 * limit. Weight gradients come in ascending microbatches. The result depends only on problem and options,
 * unless `stop` ends it; no threads. `plan->schedule` is the family's name, "known" or "search". Laborious
 * families (plan/family/family.h) are skipped if one takes more than a quarter of `work`, unless nothing else
 * fits or there is no search. SL_ENONE: nothing fits into the memory limit. SL_ENOMEM. Free with
 * sl_plan_free, also on error. */
sl_status sl_replan(const sl_problem *problem, const sl_replan_options *options, sl_plan *plan);
