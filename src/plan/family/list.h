/* The list scheduler (Adaptra, algorithms 3 and 4), event-driven: the limit of its time step towards 0; for
 * every placement.
 *
 * Whenever a rank is idle it takes the best op that is ready at that moment: forwards only until its warm-up
 * quota is met, then I before F before W, or whatever the rule's keys say; each stage and kind in ascending
 * microbatches. An F starts only when memory and the caps on microbatches in flight allow and room is left
 * for the later stages of the rank; else a W comes first, or the rank waits. Ops become ready by the same
 * rules as in the timing model: links with latency and occupancy, first come, first served. */
#pragma once

#include "plan/pipeline/order.h"

/* Among ready ops of one kind: the lowest microbatch first (depth first), or the lowest stage for F and the
 * highest for I (breadth first). */
typedef enum sl_list_tie { SL_OLDEST, SL_BROADEST } sl_list_tie;

typedef struct sl_list_rule {
    const int *warmup;  /* [ranks] quota of forwards */
    const int *ahead;   /* [stages] most microbatches between F and I; NULL: no cap */
    const int *flight;  /* [stages] most microbatches between F and W; NULL: no cap */
    int forward_first;  /* F before I where both may start: keeps `ahead` full, as 1F1B does */
    int limited;        /* keep to problem->limit */
    sl_list_tie tie;    /* between stages of a rank */
    const int64_t *key; /* instead of kinds and tie: the least first; [stage][F I W][k-th microbatch of the
                           stage], stages one behind the other with problem->microbatches places each; NULL:
                           none */
    int64_t patience; /* a rank waits this long (ns) for an op that goes before W instead of beginning one; 0:
                         never */
} sl_list_rule;

/** The order that the rule gives with F, I and W of `problem`. SL_ENONE when the ranks get stuck (the quota
 * does not fit into memory). O(ops * (log ranks + stages a rank)). Free with sl_order_free. */
sl_status sl_list_schedule(const sl_problem *problem, const sl_list_rule *rule, sl_order *order);
