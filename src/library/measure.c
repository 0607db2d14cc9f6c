/* Measurements as a problem. They come from outside, so each is checked before it is counted. */
#include "base/memory.h"
#include "library/handles.h"
#include "plan/timing/profile.h"

static sl_status take_span(const sl_problem *p, size_t index, const slackline_span *from, sl_span *to) {
    const slackline_op *op = &from->op;
    if (op->kind < SL_F || op->kind >= SL_OP_KINDS || op->stage < 0 || op->stage >= p->stages)
        return sl_error(SL_EINVAL, "span %zu: there is no op of kind %d and stage %d", index, op->kind,
                        op->stage);
    if (p->parts > 1 || op->part != 0 || op->paired)
        return sl_error(SL_EINVAL, "span %zu: a part or a pair says nothing of the time of a whole op",
                        index);
    if (from->end_ns < from->start_ns ||
        (uint64_t)from->end_ns - (uint64_t)from->start_ns > (uint64_t)SL_MAX_OP_MS * SL_MS)
        return sl_error(SL_EINVAL, "span %zu: from %lld to %lld ns is no time of an op", index,
                        (long long)from->start_ns, (long long)from->end_ns);
    *to = (sl_span){.rank = from->rank,
                    .op = {.stage = op->stage, .microbatch = op->microbatch, .kind = op->kind},
                    .start = from->start_ns,
                    .end = from->end_ns};
    return SL_OK;
}

static sl_status take_transfer(const sl_problem *p, size_t index, const slackline_transfer *from,
                               sl_transfer *to) {
    if (from->from < 0 || from->from >= p->ranks || from->to < 0 || from->to >= p->ranks ||
        from->from == from->to)
        return sl_error(SL_EINVAL, "transfer %zu: there is no link %d-%d", index, from->from, from->to);
    if (from->end_ns < from->start_ns || from->arrive_ns < from->start_ns ||
        (uint64_t)from->end_ns - (uint64_t)from->start_ns > (uint64_t)SL_MAX_OP_MS * SL_MS ||
        (uint64_t)from->arrive_ns - (uint64_t)from->start_ns > 2 * (uint64_t)SL_MAX_OP_MS * SL_MS)
        return sl_error(SL_EINVAL, "transfer %zu: %lld, %lld and %lld ns are no start, end and arrival",
                        index, (long long)from->start_ns, (long long)from->end_ns,
                        (long long)from->arrive_ns);
    *to = (sl_transfer){.from = from->from,
                        .to = from->to,
                        .start = from->start_ns,
                        .end = from->end_ns,
                        .arrive = from->arrive_ns};
    return SL_OK;
}

static sl_status profile(slackline_problem *measured, const slackline_span *spans, size_t span_count,
                         const slackline_transfer *transfers, size_t transfer_count) {
    sl_problem *p = &measured->problem;
    sl_timeline timeline;
    if (p->layers)
        return sl_error(SL_EINVAL, "the stages of this problem are cut from layers");
    if (span_count > SL_MAX_OPS || transfer_count > SL_MAX_OPS)
        return sl_error(SL_EINVAL, "more than %d spans or transfers", SL_MAX_OPS);
    SL_TRY(sl_timeline_make(p->ranks, (int)span_count, (int)transfer_count, &timeline));
    sl_status status = SL_OK;
    for (size_t i = 0; i < span_count && status == SL_OK; i++)
        status = take_span(p, i, &spans[i], &timeline.span[i]);
    for (size_t i = 0; i < transfer_count && status == SL_OK; i++)
        status = take_transfer(p, i, &transfers[i], &timeline.transfer[i]);
    if (status == SL_OK)
        status = sl_profile(&timeline, p);
    sl_timeline_free(&timeline);
    for (int stage = 0; stage < p->stages && status == SL_OK; stage++)
        measured->full_time[stage] = p->time[SL_B][stage] != p->time[SL_I][stage] + p->time[SL_W][stage];
    return status;
}

SL_PUBLIC slackline_status slackline_measure(const slackline_problem *problem, const slackline_span *spans,
                                             size_t span_count, const slackline_transfer *transfers,
                                             size_t transfer_count, slackline_problem **measured) {
    slackline_status copied = slackline_problem_copy(problem, measured);
    if (copied != SLACKLINE_OK)
        return copied;
    sl_status status = profile(*measured, spans, span_count, transfers, transfer_count);
    if (status != SL_OK) {
        slackline_problem_free(*measured);
        *measured = NULL;
    }
    return sl_library_status(status);
}
