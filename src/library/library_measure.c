/* Measurements as a timeline, or as a problem. They come from outside, so each is checked before use. */
#include "base/memory.h"
#include "library/library_handles.h"
#include "plan/timing/profile.h"
#include "plan/timing/runtime_overhead.h"

#include <math.h>

static int within(int64_t start, int64_t end, uint64_t max_ms) {
    return end >= start && (uint64_t)end - (uint64_t)start <= max_ms * (uint64_t)SL_MS;
}

/* In a pair, F comes first and has the mark, and its B follows. */
static sl_status check_pair(size_t index, const sl_span *last, const sl_span *span) {
    if (span->op.paired && span->op.kind != SL_F)
        return sl_error(SL_EINVAL, "span %zu: the first of a pair is an F, not %s", index,
                        sl_op_name(span->op.kind));
    if (!last || !last->op.paired)
        return SL_OK;
    if (span->op.kind != SL_B || span->rank != last->rank || span->start != last->start ||
        span->end != last->end)
        return sl_error(SL_EINVAL, "span %zu: after the F of a pair comes its B, with equal rank and times",
                        index);
    return SL_OK;
}

static sl_status check_op(const sl_problem *p, size_t index, const sl_span *span) {
    const sl_op *op = &span->op;
    if (p->parts > 1 || op->part != 0)
        return sl_error(SL_EINVAL, "span %zu: a part does not give the time of a whole op", index);
    if (op->microbatch < 0 || op->microbatch >= p->microbatches ||
        !sl_problem_runs(p, op->stage, op->microbatch))
        return sl_error(SL_EINVAL, "span %zu: no microbatch %d of %d runs through stage %d", index,
                        op->microbatch, p->microbatches, op->stage);
    return SL_OK;
}

static sl_status take_span(const sl_problem *p, size_t index, const slackline_span *from, sl_span *to) {
    const slackline_op *op = &from->op;
    if (op->kind < SL_F || op->kind >= SL_SPAN_KINDS || op->stage < 0 || op->stage >= p->stages)
        return sl_error(SL_EINVAL, "span %zu: there is no op of kind %d and stage %d", index, op->kind,
                        op->stage);
    if (from->rank != sl_problem_rank(p, op->stage))
        return sl_error(SL_EINVAL, "span %zu: stage %d is on rank %d, not %d", index, op->stage,
                        sl_problem_rank(p, op->stage), from->rank);
    if (!within(from->start_ns, from->end_ns, (uint64_t)SL_MAX_OP_MS))
        return sl_error(SL_EINVAL, "span %zu: from %lld to %lld ns is not a valid time of an op", index,
                        (long long)from->start_ns, (long long)from->end_ns);
    *to = (sl_span){.rank = from->rank,
                    .op = {.stage = op->stage,
                           .microbatch = op->microbatch,
                           .kind = op->kind,
                           .part = (int16_t)(op->part != 0),
                           .paired = (int16_t)(op->paired != 0)},
                    .start = from->start_ns,
                    .end = from->end_ns};
    return SL_OK;
}

/* Ops go to `span`, collectives and moves to `collective`, which has room for all. */
static sl_status take_spans(const sl_problem *p, const slackline_measurements *from, sl_timeline *timeline,
                            double *work) {
    const sl_span *last = NULL;
    timeline->spans = 0;
    for (size_t i = 0; i < from->spans; i++) {
        const int is_collective = from->span[i].op.kind >= SL_OP_KINDS;
        sl_span *to =
            is_collective ? &timeline->collective[timeline->collectives] : &timeline->span[timeline->spans];
        SL_TRY(take_span(p, i, &from->span[i], to));
        if (is_collective) {
            timeline->collectives++;
            continue;
        }
        SL_TRY(check_op(p, i, to));
        SL_TRY(check_pair(i, last, to));
        if (work)
            work[timeline->spans] = from->span_work[i];
        last = to;
        timeline->spans++;
    }
    return last && last->op.paired ? sl_error(SL_EINVAL, "the last span is the F of a pair, without its B")
                                   : SL_OK;
}

static sl_status take_transfer(const sl_problem *p, size_t index, const slackline_transfer *from,
                               sl_transfer *to) {
    if (from->from < 0 || from->from >= p->ranks || from->to < 0 || from->to >= p->ranks ||
        from->from == from->to)
        return sl_error(SL_EINVAL, "transfer %zu: there is no link %d-%d", index, from->from, from->to);
    if (!within(from->start_ns, from->end_ns, (uint64_t)SL_MAX_OP_MS) ||
        !within(from->start_ns, from->arrive_ns, 2 * (uint64_t)SL_MAX_OP_MS))
        return sl_error(SL_EINVAL,
                        "transfer %zu: %lld, %lld and %lld ns are not a valid start, end and arrival", index,
                        (long long)from->start_ns, (long long)from->end_ns, (long long)from->arrive_ns);
    *to = (sl_transfer){
        .from = from->from,
        .to = from->to,
        .op = {.kind = from->op.kind, .stage = from->op.stage, .microbatch = from->op.microbatch},
        .start = from->start_ns,
        .end = from->end_ns,
        .arrive = from->arrive_ns};
    return SL_OK;
}

static sl_status check(const slackline_measurements *m) {
    if (m->spans > SL_MAX_OPS || m->transfers > SL_MAX_OPS)
        return sl_error(SL_EINVAL, "more than %d spans or transfers", SL_MAX_OPS);
    if ((m->spans && !m->span) || (m->transfers && !m->transfer))
        return sl_error(SL_EINVAL, "%zu spans and %zu transfers, but the array is NULL", m->spans,
                        m->transfers);
    for (size_t i = 0; m->span_work && i < m->spans; i++)
        if (!isfinite(m->span_work[i]))
            return sl_error(SL_EINVAL, "the work of span %zu is not a finite number", i);
    for (size_t i = 0; m->transfer_work && i < m->transfers; i++)
        if (!isfinite(m->transfer_work[i]))
            return sl_error(SL_EINVAL, "the work of transfer %zu is not a finite number", i);
    return SL_OK;
}

static sl_status take(const sl_problem *p, const slackline_measurements *from, sl_timeline *timeline,
                      double **work) {
    SL_TRY(sl_alloc(&timeline->collective, from->spans, sizeof *timeline->collective));
    if (from->span_work)
        SL_TRY(sl_alloc(work, from->spans, sizeof **work));
    SL_TRY(take_spans(p, from, timeline, *work));
    for (size_t i = 0; i < from->transfers; i++)
        SL_TRY(take_transfer(p, i, &from->transfer[i], &timeline->transfer[i]));
    return SL_OK;
}

sl_status sl_library_timeline(const sl_problem *p, const slackline_measurements *from, sl_timeline *timeline,
                              double **work) {
    *timeline = (sl_timeline){0};
    *work = NULL;
    SL_TRY(check(from));
    SL_TRY(sl_timeline_make(p->ranks, (int)from->spans, (int)from->transfers, timeline));
    timeline->measured = 1;
    return take(p, from, timeline, work);
}

static sl_status profile(slackline_problem *measured, const slackline_measurements *from) {
    sl_problem *p = &measured->problem;
    sl_timeline timeline;
    double *work;
    if (p->layers)
        return sl_error(SL_EINVAL, "the stages of this problem are cut from layers");
    sl_status status = sl_library_timeline(p, from, &timeline, &work);
    for (int stage = 0; stage < p->stages; stage++)
        sl_problem_add_overhead(p, stage, -1);
    SL_THEN(status, sl_profile(&timeline, p));
    sl_timeline_free(&timeline);
    sl_free(work);
    for (int stage = 0; stage < p->stages; stage++) {
        sl_problem_add_overhead(p, stage, 1);
        measured->full_time[stage] = (unsigned char)sl_library_is_full(p, stage);
    }
    return status;
}

SL_PUBLIC slackline_status slackline_measure(const slackline_problem *problem, const slackline_span *spans,
                                             size_t span_count, const slackline_transfer *transfers,
                                             size_t transfer_count, slackline_problem **measured) {
    slackline_measurements from = {
        .span = spans, .spans = span_count, .transfer = transfers, .transfers = transfer_count};
    slackline_status copied = slackline_problem_copy(problem, measured);
    if (copied != SLACKLINE_OK)
        return copied;
    sl_status status = profile(*measured, &from);
    if (status != SL_OK) {
        slackline_problem_free(*measured);
        *measured = NULL;
    }
    return sl_library_status(status);
}

SL_PUBLIC slackline_status slackline_measure_overhead(const slackline_problem *problem,
                                                      const slackline_span *spans, size_t span_count,
                                                      const slackline_transfer *transfers,
                                                      size_t transfer_count, int64_t *op_ns,
                                                      int64_t *message_ns) {
    slackline_measurements from = {
        .span = spans, .spans = span_count, .transfer = transfers, .transfers = transfer_count};
    sl_timeline timeline;
    double *work;
    sl_time op = 0, message = 0;
    sl_status status = sl_library_timeline(&problem->problem, &from, &timeline, &work);
    SL_THEN(status, sl_overhead_measure(&timeline, &problem->problem, &op, &message));
    sl_timeline_free(&timeline);
    sl_free(work);
    *op_ns = op;
    *message_ns = message;
    return sl_library_status(status);
}
