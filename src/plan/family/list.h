/* The list scheduler (Adaptra, algorithms 3 and 4), event-driven (its time step goes to 0), for every
 * placement.
 *
 * An idle rank takes the best op that is ready: only forwards until its warm-up quota is met, then I before F
 * before W, or by the rule's keys; each stage and kind in ascending microbatches. An F starts only if memory
 * and the caps on microbatches in flight allow it and room remains for the later stages of the rank; else a W
 * comes first, or the rank waits. Ops become ready by the same rules as in the timing model: links with
 * latency and occupancy, first come, first served. */
#pragma once

#include "plan/pipeline/order.h"

/* Among ready ops of one kind: the lowest microbatch first (depth first), or the lowest stage for F and the
 * highest for I (breadth first). */
typedef enum sl_list_tie { SL_OLDEST, SL_BROADEST } sl_list_tie;

typedef struct sl_list_rule {
    const int *warmup;  /* [ranks] quota of forwards */
    const int *ahead;   /* [stages] maximum of microbatches between F and I; NULL: no cap */
    const int *flight;  /* [stages] maximum of microbatches between F and W; NULL: no cap */
    int forward_first;  /* F before I if both may start: keeps `ahead` full, as 1F1B does */
    int limited;        /* keep to problem->limit */
    sl_list_tie tie;    /* between stages of a rank */
    const int64_t *key; /* replaces kinds and tie: the smallest first; [stage][F I W][k-th microbatch of the
                           stage], problem->microbatches entries each; NULL: none */
    int64_t patience;   /* a rank waits this long (ns) for an op with priority over W before it starts a W; 0:
                           never */
} sl_list_rule;

/** The order that the rule gives with F, I and W of `problem`. SL_ENONE: the ranks get stuck (the quota does
 * not fit into memory). O(ops * (log ranks + stages per rank)). Free with sl_order_free. */
sl_status sl_list_schedule(const sl_problem *problem, const sl_list_rule *rule, sl_order *order);
