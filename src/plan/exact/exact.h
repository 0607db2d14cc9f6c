/* The exact solver: the problem as a constraint model for OR-tools CP-SAT, which is found at run time
 * (solver.h) and runs in a child process. It proves bounds and finds better orders if any exist.
 *
 * The model is the decoupled regime with F, I and W separate: one op at a time on a rank, one message at a
 * time on a wire, memory within the limits, the collectives of a rank one after the other. Its bound also
 * holds under the other regimes, which only add delay, but it gives no order for them. Messages take a shared
 * wire in the order that suits the makespan; a replay serves first come, first served, and may take longer.
 * Microbatches ascend in every kind of op of a stage. This loses nothing, because they are all alike. */
#pragma once

#include "plan/pipeline/order.h"
#include <stdatomic.h>

typedef struct sl_exact_result {
    int found;        /* `order` is better than the hint, or there was no hint */
    int proven;       /* no schedule of the problem is shorter than `makespan` */
    sl_time makespan; /* of `order` when replayed; else the hint's; SL_TIME_NEVER: neither exists */
    sl_time bound;    /* ns; no schedule of the problem is shorter: at least `known_bound` */
    sl_order order;   /* empty unless found; free with sl_order_free */
    double solve_s;   /* spent in the solver */
} sl_exact_result;

/** Whether OR-tools and slackline-solver are installed. Never fails. */
int sl_exact_available(void);

/** Solves for at most `time_limit_s` with `threads` (0: as many as processors, at most 8). `hint`: an order
 * of the problem to start from, never replaced by a worse one; NULL: none. `known_bound`: ns, proven
 * elsewhere; 0: none. `stop`: if it becomes nonzero, the solver is ended with SL_ESYS; NULL: never. SL_ENONE:
 * OR-tools is absent, the problem has parts or is too large for it, or it proved that no schedule keeps the
 * memory limit. SL_EINVAL: the hint is not an order of the problem. SL_ESYS: the child failed (solver.h). If
 * B does more than I and W (shorter, overlapped, or with less memory), or if memory has no exact integers,
 * nothing is proven beyond `known_bound`. */
sl_status sl_exact_solve(const sl_problem *problem, const sl_order *hint, double time_limit_s, int threads,
                         uint64_t seed, sl_time known_bound, const atomic_int *stop, sl_exact_result *result);
