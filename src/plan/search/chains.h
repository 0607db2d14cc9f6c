/* A sequence of annealing chains (plan/search/improve.h), each longer than the one before: the first ones
 * start from a share of the starting orders, the later ones from the best so far. Full backwards are joined
 * if this saves time (plan/search/regroup.h). */
#pragma once

#include "base/clock.h"
#include "plan/search/starts.h"

typedef struct sl_chains {
    const sl_starts *starts;
    int index, threads; /* number `index` of `threads` searches that share the starting orders */
    sl_limit until;
    int64_t work; /* budget in replayed ops; counted down */
    uint64_t seed;
    sl_time bound; /* proven: the search ends when it is reached */
    sl_order best; /* only if `improved`: better than the first of the starts. Free it */
    sl_time value;
    int improved;
} sl_chains;

/** A function of starts, index, threads, work and seed, unless `until` ends it before. SL_ENOMEM, SL_EINVAL.
 */
sl_status sl_chains_run(sl_chains *chains);
