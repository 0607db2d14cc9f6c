#include "plan/pipeline/order.h"
#include "base/memory.h"

#include <string.h>

enum { SL_ENDS_MAX = 64 }; /* stages of a rank whose ends are compared */

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
    if (!order->issue)
        return SL_OK;
    sl_status status = sl_order_make_issues(copy, order->issues);
    for (int rank = 0; rank < order->ranks && status == SL_OK; rank++) {
        copy->issues[rank] = order->issues[rank];
        memcpy(copy->issue[rank], order->issue[rank], (size_t)order->issues[rank] * sizeof(sl_order_issue));
    }
    if (status != SL_OK)
        sl_order_free(copy);
    return status;
}

sl_status sl_order_make_issues(sl_order *order, const int *capacity) {
    sl_order_drop_issues(order);
    SL_TRY(sl_alloc(&order->issues, (size_t)order->ranks, sizeof *order->issues));
    sl_status status = sl_alloc(&order->issue, (size_t)order->ranks, sizeof *order->issue);
    for (int rank = 0; rank < order->ranks && status == SL_OK; rank++)
        status = sl_alloc(&order->issue[rank], (size_t)capacity[rank], sizeof **order->issue);
    if (status != SL_OK)
        sl_order_drop_issues(order);
    return status;
}

void sl_order_drop_issues(sl_order *order) {
    for (int rank = 0; order->issue && rank < order->ranks; rank++)
        sl_free(order->issue[rank]);
    SL_FREE(order->issue, order->issues);
    order->issue = NULL;
    order->issues = NULL;
}

void sl_order_free(sl_order *order) {
    sl_order_drop_issues(order);
    for (int rank = 0; order->ops && rank < order->ranks; rank++)
        sl_free(order->ops[rank]);
    SL_FREE(order->ops, order->count);
    *order = (sl_order){0};
}

/* The first of a pair must be an F and the second a whole B on other data. */
static const char *check_pair(const sl_problem *p, const sl_order *order, int rank, int position) {
    const sl_op *op = &order->ops[rank][position];
    if (!op->paired)
        return NULL;
    if (p->parts > 1)
        return "is paired, but comes in parts";
    if (op->kind != SL_F || position + 1 >= order->count[rank] || op[1].kind != SL_B || op[1].paired)
        return "is paired, but only an F and the B after it can be";
    if (op[1].stage == op->stage && op[1].microbatch == op->microbatch)
        return "is paired with its own B";
    return NULL;
}

/* The parts done so far of each (stage, microbatch): 8 bits for each kind. */
static unsigned seen_parts(uint32_t cell, int kind) {
    return cell >> 8 * kind & 255;
}

static const char *check_sequence(const sl_problem *p, const sl_op *op, uint32_t cell) {
    unsigned all = (unsigned)p->parts;
    if (seen_parts(cell, op->kind) > (unsigned)op->part)
        return "is duplicated";
    if (seen_parts(cell, op->kind) < (unsigned)op->part)
        return "precedes its lower-numbered parts";
    if (op->kind != SL_F && seen_parts(cell, SL_F) < all)
        return "precedes its F";
    if (op->kind == SL_W && seen_parts(cell, SL_I) < all)
        return "precedes its I";
    if ((op->kind == SL_B && (seen_parts(cell, SL_I) || seen_parts(cell, SL_W))) ||
        (op->kind != SL_F && op->kind != SL_B && seen_parts(cell, SL_B)))
        return "is in addition to a B, which is I and W in one";
    return NULL;
}

/* Between stages of one rank nothing is sent, so the sequence itself must respect the dependency. Returns the
 * stage whose op is missing; -1: none. */
static int missing_input(const sl_problem *p, const sl_op *op, const uint32_t *seen) {
    int stage = op->kind == SL_F   ? sl_problem_previous(p, op->stage)
                : op->kind == SL_W ? -1
                                   : sl_problem_next(p, op->stage);
    unsigned all = (unsigned)p->parts;
    if (op->part > 0 || stage < 0 || sl_problem_rank(p, stage) != sl_problem_rank(p, op->stage))
        return -1;
    uint32_t cell = seen[(size_t)stage * (size_t)p->microbatches + (size_t)op->microbatch];
    int done = op->kind == SL_F ? seen_parts(cell, SL_F) == all
                                : seen_parts(cell, SL_I) == all || seen_parts(cell, SL_B) == all;
    return done ? -1 : stage;
}

static sl_status check_op(const sl_problem *p, const sl_order *order, int rank, int position,
                          uint32_t *seen) {
    const sl_op *op = &order->ops[rank][position];
    if (op->kind < 0 || op->kind >= SL_OP_KINDS || op->stage < 0 || op->stage >= p->stages ||
        op->microbatch < 0 || op->microbatch >= p->microbatches)
        return sl_error(SL_EINVAL,
                        "rank %d, op %d: %d%s%d is not of this problem (%d stages, %d microbatches)", rank,
                        position, op->stage, op->kind < SL_OP_KINDS ? sl_op_name(op->kind) : "?",
                        op->microbatch, p->stages, p->microbatches);
    if (op->part < 0 || op->part >= p->parts)
        return sl_error(SL_EINVAL, "rank %d, op %d: %d%s%d has part %d, but an op has %d", rank, position,
                        op->stage, sl_op_name(op->kind), op->microbatch, op->part, p->parts);
    uint32_t *cell = &seen[(size_t)op->stage * (size_t)p->microbatches + (size_t)op->microbatch];
    const char *wrong = sl_problem_rank(p, op->stage) != rank ? "is on the wrong rank"
                        : !sl_problem_runs(p, op->stage, op->microbatch)
                            ? "is of the other pipeline's microbatch"
                            : check_sequence(p, op, *cell);
    if (!wrong)
        wrong = check_pair(p, order, rank, position);
    if (wrong)
        return sl_error(SL_EINVAL, "rank %d, op %d: %d%s%d %s", rank, position, op->stage,
                        sl_op_name(op->kind), op->microbatch, wrong);
    int missing = missing_input(p, op, seen);
    if (missing >= 0)
        return sl_error(SL_EINVAL, "rank %d, op %d: %d%s%d precedes %d%s%d, which it needs", rank, position,
                        op->stage, sl_op_name(op->kind), op->microbatch, missing, sl_op_name(op->kind),
                        op->microbatch);
    *cell += 1u << 8 * op->kind;
    return SL_OK;
}

static sl_status check_complete(const sl_problem *p, const uint32_t *seen, int *rank) {
    unsigned all = (unsigned)p->parts;
    for (int stage = 0; stage < p->stages; stage++)
        for (int m = 0; m < p->microbatches; m++) {
            if (!sl_problem_runs(p, stage, m))
                continue;
            uint32_t cell = seen[(size_t)stage * (size_t)p->microbatches + (size_t)m];
            int full = seen_parts(cell, SL_B) > 0;
            int missing = seen_parts(cell, SL_F) < all           ? SL_F
                          : full && seen_parts(cell, SL_B) < all ? SL_B
                          : full                                 ? -1
                          : seen_parts(cell, SL_I) < all         ? SL_I
                          : seen_parts(cell, SL_W) < all         ? SL_W
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
    uint32_t *seen;
    sl_status status;
    *rank = *position = -1;
    if (order->ranks != problem->ranks)
        return sl_error(SL_EINVAL, "the order has %d ranks, the problem %d", order->ranks, problem->ranks);
    SL_TRY(sl_alloc(&seen, (size_t)problem->stages * (size_t)problem->microbatches, sizeof *seen));
    for (*rank = 0; *rank < order->ranks; ++*rank)
        for (*position = 0; *position < order->count[*rank]; ++*position)
            SL_TRY_GOTO(done, status, check_op(problem, order, *rank, *position, seen));
    *rank = *position = -1;
    status = check_complete(problem, seen, rank);
done:
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
                if (before->stage != op->stage || before->part != op->part ||
                    (before->kind != SL_W && before->kind != SL_B))
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

/* The last op before `at` that ends a gradient of another stage than those in `after[count]`; -1: none. */
static int last_backward(const sl_order *order, int rank, int at, const int *after, int count) {
    for (int i = at - 1; i >= 0; i--) {
        const sl_op *op = &order->ops[rank][i];
        int known = op->kind != SL_W && op->kind != SL_B;
        for (int k = 0; k < count && !known; k++)
            known = after[k] == op->stage;
        if (!known)
            return i;
    }
    return -1;
}

int sl_order_ends_alike(const sl_order *a, const sl_order *b) {
    int alike = a->ranks == b->ranks;
    for (int rank = 0; rank < a->ranks && alike; rank++) {
        int stage[SL_ENDS_MAX], count = 0, i = a->count[rank], j = b->count[rank];
        while (i >= 0 && j >= 0 && alike && count < SL_ENDS_MAX) {
            i = last_backward(a, rank, i, stage, count);
            j = last_backward(b, rank, j, stage, count);
            alike = (i < 0) == (j < 0) && (i < 0 || a->ops[rank][i].stage == b->ops[rank][j].stage);
            if (i >= 0)
                stage[count++] = a->ops[rank][i].stage;
        }
    }
    return alike;
}

/* Every op as all its parts, one after the other. */
sl_status sl_order_split(const sl_problem *p, sl_order *order) {
    if (p->parts == 1)
        return SL_OK;
    sl_order_drop_issues(order);
    for (int rank = 0; rank < order->ranks; rank++) {
        sl_op *whole = order->ops[rank], *cut;
        int count = order->count[rank];
        SL_TRY(sl_alloc(&cut, (size_t)count * (size_t)p->parts, sizeof *cut));
        for (int i = 0; i < count; i++)
            for (int part = 0; part < p->parts; part++) {
                sl_op *op = &cut[i * p->parts + part];
                *op = whole[i];
                op->part = (int16_t)part;
                op->paired = 0;
            }
        sl_free(whole);
        order->ops[rank] = cut;
        order->count[rank] = count * p->parts;
    }
    return SL_OK;
}

void sl_order_warmup(const sl_order *order, int *warmup) {
    for (int rank = 0; rank < order->ranks; rank++) {
        warmup[rank] = 0;
        for (int i = 0; i < order->count[rank]; i++) {
            if (order->ops[rank][i].kind == SL_I || order->ops[rank][i].kind == SL_B)
                break;
            warmup[rank] += order->ops[rank][i].kind == SL_F && order->ops[rank][i].part == 0;
        }
    }
}

int sl_order_equal(const sl_order *a, const sl_order *b) {
    if (a->ranks != b->ranks || !a->issue != !b->issue)
        return 0;
    for (int rank = 0; rank < a->ranks; rank++)
        if (a->count[rank] != b->count[rank] ||
            memcmp(a->ops[rank], b->ops[rank], (size_t)a->count[rank] * sizeof(sl_op)) != 0)
            return 0;
    for (int rank = 0; a->issue && rank < a->ranks; rank++)
        if (a->issues[rank] != b->issues[rank] ||
            memcmp(a->issue[rank], b->issue[rank], (size_t)a->issues[rank] * sizeof(sl_order_issue)) != 0)
            return 0;
    return 1;
}
