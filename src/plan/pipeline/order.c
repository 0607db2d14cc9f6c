#include "plan/pipeline/order.h"
#include "base/memory.h"

#include <string.h>

sl_status sl_order_make(int ranks, int capacity, sl_order *order) {
    *order = (sl_order){.ranks = ranks};
    SL_TRY(sl_alloc(&order->count, (size_t)ranks, sizeof *order->count));
    sl_status status = sl_alloc(&order->ops, (size_t)ranks, sizeof *order->ops);
    for (int rank = 0; rank < ranks && status == SL_OK; rank++)
        status = sl_alloc(&order->ops[rank], (size_t)capacity, sizeof **order->ops);
    if (status != SL_OK)
        sl_order_free(order);
    return status;
}

sl_status sl_order_copy(const sl_order *order, sl_order *copy) {
    int most = 0;
    for (int rank = 0; rank < order->ranks; rank++)
        most = order->count[rank] > most ? order->count[rank] : most;
    SL_TRY(sl_order_make(order->ranks, most, copy));
    for (int rank = 0; rank < order->ranks; rank++) {
        copy->count[rank] = order->count[rank];
        memcpy(copy->ops[rank], order->ops[rank], (size_t)order->count[rank] * sizeof(sl_op));
    }
    return SL_OK;
}

void sl_order_free(sl_order *order) {
    for (int rank = 0; order->ops && rank < order->ranks; rank++)
        sl_free(order->ops[rank]);
    sl_free(order->ops);
    sl_free(order->count);
    *order = (sl_order){0};
}

/* What has been seen of each (stage, microbatch): a bit for each kind. */
static sl_status check_op(const sl_problem *p, const sl_order *order, int rank, int position,
                          unsigned char *seen) {
    const sl_op *op = &order->ops[rank][position];
    if (op->kind < 0 || op->kind >= SL_OP_KINDS || op->stage < 0 || op->stage >= p->stages ||
        op->microbatch < 0 || op->microbatch >= p->microbatches)
        return sl_error(
            SL_EINVAL, "rank %d, op %d: %d%s%d is not of this problem (%d stages, %d microbatches)", rank,
            position, op->stage, sl_op_name(op->kind), op->microbatch, p->stages, p->microbatches);
    unsigned char *cell = &seen[(size_t)op->stage * (size_t)p->microbatches + (size_t)op->microbatch];
    const char *wrong = NULL;
    unsigned had = *cell, mine = 1u << op->kind;
    if (sl_problem_rank(p, op->stage) != rank)
        wrong = "is on the wrong rank";
    else if (had & mine)
        wrong = "stands twice";
    else if (op->kind != SL_F && !(had & 1u << SL_F))
        wrong = "stands before its F";
    else if (op->kind == SL_W && !(had & 1u << SL_I))
        wrong = "stands before its I";
    else if ((op->kind == SL_B && had & (1u << SL_I | 1u << SL_W)) || (op->kind != SL_F && had & 1u << SL_B))
        wrong = "comes beside a B, which is I and W in one";
    if (wrong)
        return sl_error(SL_EINVAL, "rank %d, op %d: %d%s%d %s", rank, position, op->stage,
                        sl_op_name(op->kind), op->microbatch, wrong);
    *cell = (unsigned char)(had | mine);
    return SL_OK;
}

static sl_status check_complete(const sl_problem *p, const unsigned char *seen, int *rank) {
    for (int stage = 0; stage < p->stages; stage++)
        for (int m = 0; m < p->microbatches; m++) {
            unsigned had = seen[(size_t)stage * (size_t)p->microbatches + (size_t)m];
            int missing = !(had & 1u << SL_F)   ? SL_F
                          : had & 1u << SL_B    ? -1
                          : !(had & 1u << SL_I) ? SL_I
                          : !(had & 1u << SL_W) ? SL_W
                                                : -1;
            if (missing >= 0) {
                *rank = sl_problem_rank(p, stage);
                return sl_error(SL_EINVAL, "rank %d: %d%s%d is missing", *rank, stage, sl_op_name(missing),
                                m);
            }
        }
    return SL_OK;
}

sl_status sl_order_check_at(const sl_problem *problem, const sl_order *order, int *rank, int *position) {
    *rank = *position = -1;
    if (order->ranks != problem->ranks)
        return sl_error(SL_EINVAL, "the order has %d ranks, the problem %d", order->ranks, problem->ranks);
    unsigned char *seen;
    SL_TRY(sl_alloc(&seen, (size_t)problem->stages * (size_t)problem->microbatches, 1));
    sl_status status = SL_OK;
    for (int r = 0; r < order->ranks && status == SL_OK; r++)
        for (int i = 0; i < order->count[r] && status == SL_OK; i++)
            if ((status = check_op(problem, order, r, i, seen)) != SL_OK) {
                *rank = r;
                *position = i;
            }
    if (status == SL_OK)
        status = check_complete(problem, seen, rank);
    sl_free(seen);
    return status;
}

sl_status sl_order_check(const sl_problem *problem, const sl_order *order) {
    int rank, position;
    return sl_order_check_at(problem, order, &rank, &position);
}

sl_status sl_order_check_ascending(const sl_order *order) {
    for (int rank = 0; rank < order->ranks; rank++)
        for (int i = 0; i < order->count[rank]; i++) {
            const sl_op *op = &order->ops[rank][i];
            if (op->kind != SL_W && op->kind != SL_B)
                continue;
            for (int j = i - 1; j >= 0; j--) { /* the last W of the same stage is near */
                const sl_op *before = &order->ops[rank][j];
                if (before->stage != op->stage || (before->kind != SL_W && before->kind != SL_B))
                    continue;
                if (before->microbatch > op->microbatch)
                    return sl_error(
                        SL_EINVAL,
                        "rank %d, op %d: %d%s%d comes after microbatch %d; sums are bit-identical only in "
                        "ascending microbatches",
                        rank, i, op->stage, sl_op_name(op->kind), op->microbatch, before->microbatch);
                break;
            }
        }
    return SL_OK;
}

void sl_order_warmup(const sl_order *order, int *warmup) {
    for (int rank = 0; rank < order->ranks; rank++) {
        warmup[rank] = 0;
        for (int i = 0; i < order->count[rank]; i++) {
            if (order->ops[rank][i].kind == SL_I || order->ops[rank][i].kind == SL_B)
                break;
            warmup[rank] += order->ops[rank][i].kind == SL_F;
        }
    }
}

int sl_order_equal(const sl_order *a, const sl_order *b) {
    if (a->ranks != b->ranks)
        return 0;
    for (int rank = 0; rank < a->ranks; rank++)
        if (a->count[rank] != b->count[rank] ||
            memcmp(a->ops[rank], b->ops[rank], (size_t)a->count[rank] * sizeof(sl_op)) != 0)
            return 0;
    return 1;
}
