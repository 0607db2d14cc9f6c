/* The list scheduler (Adaptra, algorithms 3 and 4), event-driven: the limit of its time step towards 0.
 *
 * Whenever a rank is idle it takes the best op that is ready at that moment: forwards only until its warm-up
 * quota is met, then I before F before W, each in ascending microbatches. An F starts only when memory and
 * the caps on microbatches in flight allow; else a W comes first, or the rank waits. Ops become ready by the
 * same rules as in the timing model: links with latency and occupancy, first come, first served. */
#ifndef SL_PLAN_SEARCH_LIST_H
#define SL_PLAN_SEARCH_LIST_H

#include "plan/pipeline/order.h"

typedef struct sl_list_rule {
    const int *warmup; /* [ranks] quota, at most `microbatches` */
    const int *ahead;  /* [ranks] most microbatches between F and I; NULL: no cap */
    const int *flight; /* [ranks] most microbatches between F and W; NULL: no cap */
    int forward_first; /* F before I where both may start: keeps `ahead` full, as 1F1B does */
    int limited;       /* keep to problem->limit */
} sl_list_rule;

/** The order that the rule gives with F, I and W of `problem`. SL_ENONE when the ranks get stuck (the quota
 * does not fit into memory). O(ops * log ranks). Free with sl_order_free. */
sl_status sl_list_schedule(const sl_problem *problem, const sl_list_rule *rule, sl_order *order);

#endif
