#include "plan/search/chains.h"
#include "plan/search/improve.h"
#include "plan/search/regroup.h"

/* The first chain of a span or period hardly accepts anything worse: the best families are often a few moves
 * from one that no rank waits in. */
#define DESCENT 0.02

static const sl_order *begin_of(const sl_chains *c, int chain) {
    int from = chain * c->threads + c->index;
    if (from < c->starts->count && chain < 3)
        return &c->starts->start[from].order;
    return c->improved ? &c->best : &c->starts->start[0].order;
}

/* Takes ownership of `order`. */
static void keep_better(sl_chains *c, sl_order *order, sl_time value) {
    if (value < c->value) {
        sl_order worse = c->best;
        c->best = *order;
        c->value = value;
        c->improved = 1;
        *order = worse;
    }
    sl_order_free(order);
}

static sl_status run_chain(sl_chains *c, int chain, int64_t work, sl_improve_result *result) {
    static const double heats[] = {1, 3, 0.3, 2};
    const double first = c->starts->problem->objective == SL_MAKESPAN ? 0.3 : DESCENT;
    sl_order order;
    SL_TRY(sl_order_copy(begin_of(c, chain), &order));
    sl_improve_options options = {.until = c->until,
                                  .work = work < c->work ? work : c->work,
                                  .heat = chain == 0 ? first : heats[(chain + c->index) % 4],
                                  .target = c->bound,
                                  .seed = c->seed * 1000003 + (uint64_t)(chain * 64 + c->index)};
    sl_status status = sl_improve(c->starts->problem, &options, &order, result);
    c->work -= result->work;
    SL_THEN(status, sl_regroup(c->starts->problem, &c->until, &c->work, &order, &result->value));
    if (status == SL_OK)
        keep_better(c, &order, result->value);
    else
        sl_order_free(&order);
    return status;
}

sl_status sl_chains_run(sl_chains *c) {
    const sl_problem *p = c->starts->problem;
    int64_t ops = 3LL * p->stages * p->microbatches * p->parts, work = 400 * ops;
    c->value = c->starts->start[0].value;
    for (int chain = 0; c->value > c->bound && c->work > 0 && !sl_limit_is_over(&c->until); chain++) {
        sl_improve_result result;
        SL_TRY(run_chain(c, chain, work, &result));
        if (result.work == 0 && chain >= 3)
            return SL_OK; /* nothing can be moved */
        work = work < 1000000 * ops ? work * 4 : work;
    }
    return SL_OK;
}
