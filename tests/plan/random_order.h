/* Random valid orders of a problem with at most 16 stages and 8 microbatches. */
#ifndef SL_TESTS_PLAN_RANDOM_ORDER_H
#define SL_TESTS_PLAN_RANDOM_ORDER_H

#include "check.h"
#include "plan/drawn.h"

#include "plan/pipeline/order.h"

typedef struct progress {
    int done[SL_OP_KINDS][16][8]; /* parts, of stage and microbatch */
} progress;

static inline int full_backward(const sl_problem *p, int stage, int m) {
    return (stage * 7 + m * 3 + p->ranks) % 3 == 0;
}

static inline int backward_done(const progress *w, int stage, int m) {
    return w->done[SL_I][stage][m] + w->done[SL_B][stage][m];
}

static inline int may_run(const sl_problem *p, const progress *w, int kind, int stage, int m) {
    int part = w->done[kind][stage][m], before = sl_problem_previous(p, stage),
        after = sl_problem_next(p, stage);
    if (!sl_problem_runs(p, stage, m) || part == p->parts)
        return 0;
    if (kind == SL_F)
        return before < 0 || w->done[SL_F][before][m] == p->parts;
    if (kind == SL_W)
        return w->done[SL_I][stage][m] == p->parts;
    return full_backward(p, stage, m) == (kind == SL_B) && w->done[SL_F][stage][m] == p->parts &&
           (after < 0 || backward_done(w, after, m) == p->parts);
}

static inline void run_op(const sl_problem *p, progress *w, int kind, int stage, int m, int paired,
                          sl_order *order) {
    int rank = sl_problem_rank(p, stage);
    order->ops[rank][order->count[rank]++] = (sl_op){.stage = stage,
                                                     .microbatch = m,
                                                     .kind = kind,
                                                     .part = (int16_t)w->done[kind][stage][m]++,
                                                     .paired = (int16_t)paired};
}

/* A B of the same rank that may run together with an F; -1. */
static inline int partner(const sl_problem *p, const progress *w, int stage, int *m) {
    for (int tries = 0; tries < 50; tries++) {
        int other = draw(p->stages);
        *m = draw(p->microbatches);
        if (sl_problem_rank(p, other) == sl_problem_rank(p, stage) && may_run(p, w, SL_B, other, *m))
            return other;
    }
    return -1;
}

/* A random walk over what may run next; with `pairs`, an F and a B that may both run are sometimes one block.
 */
static inline void random_order(const sl_problem *p, int pairs, sl_order *order) {
    progress w = {0};
    int left = 0;
    assert_ok(sl_order_make(p->ranks, 3 * p->stages * p->microbatches * p->parts, order));
    for (int s = 0; s < p->stages; s++)
        for (int m = 0; m < p->microbatches; m++)
            left += sl_problem_runs(p, s, m) ? (full_backward(p, s, m) ? 2 : 3) * p->parts : 0;
    for (int tries = 0; left > 0 && tries < 10000000; tries++) {
        int stage = draw(p->stages), kind = draw(SL_OP_KINDS), m = draw(p->microbatches), other_m;
        if (!may_run(p, &w, kind, stage, m))
            continue;
        int other = pairs && kind == SL_F && p->parts == 1 && draw(2) ? partner(p, &w, stage, &other_m) : -1;
        run_op(p, &w, kind, stage, m, other >= 0, order);
        left--;
        if (other >= 0) {
            run_op(p, &w, SL_B, other, other_m, 0, order);
            left--;
        }
    }
    assert_int_equal(left, 0);
}

#endif
