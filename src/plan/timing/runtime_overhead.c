#include "plan/timing/runtime_overhead.h"
#include "base/memory.h"
#include "base/numbers.h"

enum {
    MESSAGES = 2,       /* at most, between two ops: one sent, one received */
    ENOUGH = 3,         /* times for a median */
    UNKNOWN = -1,       /* the arrival of a message */
    SHORTEST = 1 * 1000 /* ns: less is no overhead */
};

typedef struct times_between {
    sl_time *arrival; /* [backward][stage][microbatch] of the message that was made there; UNKNOWN */
    sl_time *gap[MESSAGES + 1];
    int count[MESSAGES + 1];
} times_between;

/* NULL: there is no such message. Those of measurements may be anything. */
static sl_time *arrival_of(const times_between *t, const sl_problem *p, const sl_op *op, int stage) {
    size_t row = (size_t)(op->kind != SL_F) * (size_t)p->stages + (size_t)stage;
    int exists = stage >= 0 && stage < p->stages && op->microbatch >= 0 && op->microbatch < p->microbatches;
    return exists ? &t->arrival[row * (size_t)p->microbatches + (size_t)op->microbatch] : NULL;
}

static int other_rank(const sl_problem *p, int stage, int neighbor) {
    return neighbor >= 0 && sl_problem_rank(p, neighbor) != sl_problem_rank(p, stage);
}

static int from_stage(const sl_problem *p, const sl_op *op) {
    return op->kind == SL_F ? sl_problem_previous(p, op->stage) : sl_problem_next(p, op->stage);
}

static int receives(const sl_problem *p, const sl_op *op) {
    return op->kind != SL_W && other_rank(p, op->stage, from_stage(p, op));
}

static int sends(const sl_problem *p, const sl_op *op) {
    int to = op->kind == SL_F ? sl_problem_next(p, op->stage) : sl_problem_previous(p, op->stage);
    return op->kind != SL_W && other_rank(p, op->stage, to);
}

static void take(const sl_problem *p, const sl_span *before, const sl_span *span, times_between *t) {
    int received = receives(p, &span->op), messages = received + sends(p, &before->op);
    const sl_time *arrival = received ? arrival_of(t, p, &span->op, from_stage(p, &span->op)) : &before->end;
    if (!arrival || *arrival == UNKNOWN || *arrival > before->end)
        return;
    t->gap[messages][t->count[messages]++] = span->start - before->end;
}

/* A pair is one op; the first op of a stage may wait for its parameters. */
static sl_status collect(const sl_timeline *measured, const sl_problem *p, times_between *t) {
    const sl_span **last;
    unsigned char *begun = NULL;
    sl_status status;
    SL_TRY(sl_alloc(&last, (size_t)p->ranks, sizeof *last));
    SL_TRY_GOTO(done, status, sl_alloc(&begun, (size_t)p->stages, 1));
    for (size_t i = 0; i < 2 * (size_t)p->stages * (size_t)p->microbatches; i++)
        t->arrival[i] = UNKNOWN;
    for (int i = 0; i < measured->transfers; i++) {
        const sl_transfer *sent = &measured->transfer[i];
        sl_time *arrival = arrival_of(t, p, &sent->op, sent->op.stage);
        if (arrival)
            *arrival = sent->arrive;
    }
    for (int i = 0; i < measured->spans; i++) {
        const sl_span *span = &measured->span[i], *before = last[span->rank];
        if (before && begun[span->op.stage] && !sl_timeline_is_paired(measured, i))
            take(p, before, span, t);
        begun[span->op.stage] = 1;
        last[span->rank] = sl_timeline_is_paired(measured, i) ? NULL : span;
    }
done:
    SL_FREE(last, begun);
    return status;
}

static void fit(times_between *t, sl_time *op, sl_time *message) {
    sl_time median[MESSAGES + 1], more = 0;
    int count = 0, least = -1;
    for (int messages = 0; messages <= MESSAGES; messages++) {
        median[messages] = sl_median(t->gap[messages], t->count[messages]);
        if (t->count[messages] < ENOUGH)
            continue;
        if (least < 0) {
            least = messages;
        } else {
            count += t->count[messages];
            more += t->count[messages] * (median[messages] - median[least]) / (messages - least);
        }
    }
    if (least < 0)
        return;
    *message = count ? sl_later(0, more / count) : least ? median[least] / (1 + least) : 0;
    *op = sl_later(0, median[least] - least * *message);
    *message = *message < SHORTEST ? 0 : *message;
    *op = *op < SHORTEST ? 0 : *op;
}

sl_status sl_overhead_measure(const sl_timeline *measured, const sl_problem *p, sl_time *op,
                              sl_time *message) {
    times_between t = {0};
    size_t spans = (size_t)measured->spans;
    sl_status status = SL_OK;
    *op = *message = 0;
    for (int messages = 0; messages <= MESSAGES; messages++)
        SL_THEN(status, sl_alloc(&t.gap[messages], spans, sizeof(sl_time)));
    SL_THEN(status, sl_alloc(&t.arrival, 2 * (size_t)p->stages * (size_t)p->microbatches, sizeof *t.arrival));
    SL_THEN(status, collect(measured, p, &t));
    if (status == SL_OK)
        fit(&t, op, message);
    SL_FREE(t.gap[0], t.gap[1], t.gap[2], t.arrival);
    return status;
}

sl_status sl_overhead_profile(const sl_timeline *measured, sl_problem *problem) {
    SL_TRY(sl_overhead_measure(measured, problem, &problem->overhead_op, &problem->overhead_message));
    for (int stage = 0; stage < problem->stages; stage++)
        sl_problem_add_overhead(problem, stage, 1);
    return SL_OK;
}
