#include "plan/search/regroup.h"
#include "base/clock.h"
#include "plan/search/order_value.h"
#include "plan/timing/message_order.h"

static int joins(const sl_problem *p, const sl_op *op) {
    return op[0].kind == SL_I && op[1].kind == SL_W && op[0].stage == op[1].stage &&
           op[0].microbatch == op[1].microbatch &&
           p->time[SL_B][op->stage] < p->time[SL_I][op->stage] + p->time[SL_W][op->stage];
}

/* Joins on a rank, starting at position `from`: only the first, or all; returns the number. */
static int join(const sl_problem *p, sl_order *order, int rank, int from, int all) {
    sl_op *ops = order->ops[rank];
    int kept = 0, joined = 0;
    for (int i = 0; i < order->count[rank]; i++) {
        sl_op op = ops[i];
        if (i >= from && i + 1 < order->count[rank] && (all || joined == 0) && joins(p, &ops[i])) {
            op.kind = SL_B;
            joined++;
            i++;
        }
        ops[kept++] = op;
    }
    order->count[rank] = kept;
    return joined;
}

static sl_status try_join(const sl_problem *p, sl_order *order, sl_time *value, int rank, int from, int all,
                          int *tried) {
    sl_order changed;
    sl_time time;
    SL_TRY(sl_order_copy(order, &changed));
    sl_order_drop_issues(&changed);
    *tried = join(p, &changed, rank, from, all);
    const int always = p->receive_buffers > 0 || p->objective != SL_MAKESPAN;
    const sl_message_effort effort = {.cutoff = always ? SL_TIME_NEVER : *value, .quick = 1};
    sl_status status = *tried > 0 ? sl_messages_plan(p, &effort, &changed) : SL_OK;
    if (*tried > 0)
        SL_THEN(status, sl_measure(p, &changed, &time, NULL));
    if (status == SL_OK && *tried > 0 && time <= *value) {
        sl_order worse = *order;
        *order = changed;
        *value = time;
        changed = worse;
    }
    sl_order_free(&changed);
    return status;
}

static sl_status join_ranks(const sl_problem *p, const sl_limit *until, int64_t *work, sl_order *order,
                            sl_time *value) {
    int64_t cost = SL_MEASURE_WORK * 3LL * p->stages * p->microbatches;
    for (int rank = 0; *work > 0 && rank < order->ranks; rank++) {
        int tried;
        SL_TRY(try_join(p, order, value, rank, 0, 1, &tried));
        *work -= tried > 0 ? cost : 0;
        for (int i = 0; i + 1 < order->count[rank] && *work > 0 && !sl_limit_is_over(until); i++)
            if (joins(p, &order->ops[rank][i])) {
                SL_TRY(try_join(p, order, value, rank, i, 0, &tried));
                *work -= cost;
            }
    }
    return SL_OK;
}

sl_status sl_regroup(const sl_problem *p, const sl_limit *until, int64_t *work, sl_order *order,
                     sl_time *value) {
    int pays = 0;
    for (int s = 0; s < p->stages; s++)
        pays |= p->time[SL_B][s] < p->time[SL_I][s] + p->time[SL_W][s];
    return pays && p->parts == 1 ? join_ranks(p, until, work, order, value) : SL_OK;
}
