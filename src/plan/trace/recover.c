#include "plan/trace/recover.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/timing/profile.h"
#include "plan/timing/runtime_overhead.h"
#include "plan/trace/recover_inside.h"

#include <stdlib.h>

/* ---- the timeline ---- */

static sl_time first_start(const sl_recovery *r) {
    sl_time first = SL_TIME_NEVER;
    for (size_t i = 0; i < r->chosens; i++)
        if (r->chosen[i].of.start < first)
            first = r->chosen[i].of.start;
    return first;
}

/* Bounds of the gathers and reductions of a rank's iteration: the end of its ops before it, the begin of
 * those after it, and its own first and last. */
typedef struct bounds {
    sl_time before, after, first, last;
} bounds;

static void find_bounds(const sl_recovery *r, bounds *of) {
    for (int rank = 0; rank < r->ranks; rank++)
        of[rank] = (bounds){INT64_MIN, SL_TIME_NEVER, SL_TIME_NEVER, INT64_MIN};
    for (size_t i = 0; i < r->ops; i++) {
        const sl_rank_op *op = &r->op[i];
        bounds *b = &of[op->rank];
        if (op->iteration < r->result->chosen && op->of.end > b->before)
            b->before = op->of.end;
        if (op->iteration > r->result->chosen && op->of.start < b->after)
            b->after = op->of.start;
        if (op->iteration == r->result->chosen) {
            b->first = op->of.start < b->first ? op->of.start : b->first;
            b->last = op->of.end > b->last ? op->of.end : b->last;
        }
    }
}

static int belongs(const sl_recovery *r, const sl_traced_op *c, const bounds *b) {
    if (c->mark >= 0 && r->chosens > 0 && r->chosen[0].of.mark >= 0)
        return c->mark == r->chosen[0].of.mark;
    /* a gather may run before the first op, after the previous iteration; a reduction ends before the next
     * begins */
    return c->op.kind == SL_GATHER ? c->start >= b->before && c->end <= b->last && c->start < b->last
                                   : c->start >= b->first && c->start < b->after;
}

static int collective_rank(const sl_recovery *r, const bounds *of, const sl_traced_op *op) {
    const int rank = r->rank_of_process[op->process];
    return op->op.kind >= SL_OP_KINDS && rank >= 0 && op->op.stage < r->stages && belongs(r, op, &of[rank])
               ? rank
               : -1;
}

static int compare_collectives(const void *a, const void *b) {
    const sl_span *x = a, *y = b;
    if (x->op.kind != y->op.kind)
        return x->op.kind - y->op.kind;
    if (x->rank != y->rank)
        return x->rank - y->rank;
    return x->start < y->start ? -1 : x->start > y->start;
}

static sl_status add_collectives(const sl_recovery *r, sl_time begin, sl_timeline *timeline) {
    const sl_traced *t = r->traced;
    int count = 0;
    for (size_t i = 0; i < t->ops; i++)
        count += t->op[i].op.kind >= SL_OP_KINDS;
    if (count == 0)
        return SL_OK;
    bounds *of;
    sl_free(timeline->collective);
    timeline->collective = NULL;
    SL_TRY(sl_alloc(&timeline->collective, (size_t)count, sizeof *timeline->collective));
    SL_TRY(sl_alloc(&of, (size_t)r->ranks, sizeof *of));
    find_bounds(r, of);
    for (size_t i = 0; i < t->ops; i++) {
        const sl_traced_op *op = &t->op[i];
        int rank = op->op.kind >= SL_OP_KINDS ? collective_rank(r, of, op) : -1;
        if (rank < 0)
            continue;
        sl_time origin = begin + r->result->offset[rank];
        timeline->collective[timeline->collectives++] =
            (sl_span){rank, op->op, op->start - origin, op->end - origin};
    }
    sl_free(of);
    qsort(timeline->collective, (size_t)timeline->collectives, sizeof *timeline->collective,
          compare_collectives);
    return SL_OK;
}

static sl_status make_timeline(const sl_recovery *r) {
    sl_timeline *timeline = &r->result->timeline;
    sl_time begin = first_start(r);
    SL_TRY(sl_timeline_make(r->ranks, (int)r->chosens, 0, timeline));
    timeline->measured = 1;
    for (size_t i = 0; i < r->chosens; i++) {
        const sl_rank_op *op = &r->chosen[i];
        timeline->span[i] = (sl_span){op->rank, op->of.op, op->of.start - begin, op->of.end - begin};
    }
    return add_collectives(r, begin, timeline);
}

static sl_status make_order(const sl_recovery *r) {
    sl_order *order = &r->result->order;
    int most = 0, count = 0;
    for (size_t i = 0; i < r->chosens; i++) {
        count = i > 0 && r->chosen[i - 1].rank == r->chosen[i].rank ? count + 1 : 1;
        most = count > most ? count : most;
    }
    SL_TRY(sl_order_make(r->ranks, most, order));
    for (size_t i = 0; i < r->chosens; i++) {
        int rank = r->chosen[i].rank;
        order->ops[rank][order->count[rank]++] = r->chosen[i].of.op;
    }
    return SL_OK;
}

/* ---- the problem ---- */

static int ran(const sl_recovery *r, int kind, int stage) {
    for (int m = 0; m < r->microbatches; m++)
        if (*sl_recovery_at(r, kind, stage, m) >= 0)
            return 1;
    return 0;
}

/* If only full backwards ran, their division into I and W is unknown. */
static void divide_backwards(sl_recovery *r) {
    sl_problem *p = &r->result->problem;
    for (int stage = 0; stage < r->stages; stage++) {
        if (!ran(r, SL_I, stage)) {
            p->time[SL_I][stage] = p->time[SL_B][stage] / 2;
            p->time[SL_W][stage] = p->time[SL_B][stage] - p->time[SL_I][stage];
            r->result->halved++;
        }
    }
}

/* Stages that only ran in pairs have no separate times of F and B: the pair's time is divided in the
 * proportion of F to B of other ops, or 1 to 2. */
static void time_pairs(sl_recovery *r) {
    sl_problem *p = &r->result->problem;
    const sl_timeline *t = &r->result->timeline;
    for (int i = 0; i + 1 < t->spans; i++) {
        const sl_span *f = &t->span[i], *b = &t->span[i + 1];
        if (!f->op.paired)
            continue;
        sl_time whole = f->end - f->start;
        sl_time *forward = &p->time[SL_F][f->op.stage], *backward = &p->time[SL_B][b->op.stage];
        if (*forward == 0 && *backward == 0)
            *forward = whole / 3;
        if (*forward == 0)
            *forward = whole > *backward ? whole - *backward : 0;
        if (*backward == 0)
            *backward = whole > *forward ? whole - *forward : 0;
    }
}

/* Means instead of medians, of unpaired ops. */
static sl_status average(sl_recovery *r) {
    const sl_timeline *t = &r->result->timeline;
    sl_problem *p = &r->result->problem;
    sl_time *sum;
    int *count;
    size_t cells = SL_OP_KINDS * (size_t)r->stages;
    SL_TRY(sl_alloc(&sum, cells, sizeof *sum));
    sl_status status = sl_alloc(&count, cells, sizeof *count);
    for (int i = 0; status == SL_OK && i < t->spans; i++) {
        const sl_op *op = &t->span[i].op;
        size_t cell = (size_t)op->kind * (size_t)r->stages + (size_t)op->stage;
        sum[cell] += sl_timeline_is_paired(t, i) ? 0 : t->span[i].end - t->span[i].start;
        count[cell] += !sl_timeline_is_paired(t, i);
    }
    for (int stage = 0; status == SL_OK && stage < r->stages; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++) {
            size_t cell = (size_t)kind * (size_t)r->stages + (size_t)stage;
            if (count[cell] > 0)
                p->time[kind][stage] = sum[cell] / count[cell];
        }
        if (count[SL_B * (size_t)r->stages + (size_t)stage] == 0 && ran(r, SL_I, stage))
            p->time[SL_B][stage] = p->time[SL_I][stage] + p->time[SL_W][stage];
    }
    SL_FREE(sum, count);
    return status;
}

static sl_status profile_reductions(sl_recovery *r) {
    const sl_timeline *t = &r->result->timeline;
    sl_time *value;
    SL_TRY(sl_alloc(&value, (size_t)t->collectives, sizeof *value));
    for (int stage = 0; stage < r->stages; stage++) {
        int count = 0;
        for (int i = 0; i < t->collectives; i++)
            if (t->collective[i].op.kind == SL_REDUCE && t->collective[i].op.stage == stage)
                value[count++] = t->collective[i].end - t->collective[i].start;
        r->result->problem.reduce[stage] = sl_median(value, count);
    }
    sl_free(value);
    return SL_OK;
}

static sl_status check_times(const sl_problem *p) {
    double limit = SL_MAX_OP_MS;
    for (int stage = 0; stage < p->stages; stage++)
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            if (sl_to_ms(p->time[kind][stage]) > (kind == SL_B ? 2 * limit : limit))
                return sl_error(SL_EINVAL, "%s of stage %d takes %.6g ms; at most %.6g", sl_op_name(kind),
                                stage, sl_to_ms(p->time[kind][stage]), limit);
    for (int i = 0; i < p->ranks * p->ranks; i++)
        if (sl_to_ms(p->link[i].latency) > limit || sl_to_ms(p->link[i].transfer) > limit)
            return sl_error(SL_EINVAL,
                            "messages from rank %d to %d take %.6g ms: are the clocks of the traces so far "
                            "apart?",
                            i / p->ranks, i % p->ranks, sl_to_ms(p->link[i].latency + p->link[i].transfer));
    if (sl_problem_total_ms(p) > SL_MAX_TOTAL_MS)
        return sl_error(SL_EINVAL, "the iteration takes longer than %g ms", SL_MAX_TOTAL_MS);
    return SL_OK;
}

static sl_status recover_times(sl_recovery *r) {
    sl_carried *carried = NULL;
    size_t count = 0;
    sl_status status = sl_recover_messages(r, &carried, &count);
    SL_THEN(status, sl_recover_clocks(r, carried, count));
    if (status == SL_OK) {
        sl_recover_align(r, carried, count);
        status = sl_recover_links(r, carried, count);
    }
    sl_free(carried);
    return status;
}

/* Marks of instants are not ops. */
static sl_status check_lengths(const sl_recovery *r) {
    char sources[SL_SOURCES];
    for (size_t i = 0; i < r->chosens; i++)
        if (r->chosen[i].of.end > r->chosen[i].of.start)
            return SL_OK;
    return sl_error(SL_EINVAL, "%s: no op takes any time", sl_traced_sources(r->traced, sources));
}

/* Finds ops that begin well before the previous one has ended: a rank of a problem runs one at a time. */
static void find_overlaps(sl_recovery *r) {
    sl_recovered *result = r->result;
    for (size_t i = 1; i < r->chosens; i++) {
        const sl_rank_op *before = &r->chosen[i - 1], *op = &r->chosen[i];
        const sl_time common = before->of.end - op->of.start;
        if (before->rank != op->rank || before->of.op.paired || common <= (op->of.end - op->of.start) / 10)
            continue;
        if (result->overlapping++ == 0)
            result->overlapping_rank = op->rank;
    }
}

static sl_status recover(sl_recovery *r) {
    SL_TRY(sl_recover_threads(r->traced));
    SL_TRY(sl_alloc(&r->rank_of_process, r->traced->processes, sizeof(int)));
    SL_TRY(sl_recover_shape(r));
    SL_TRY(sl_recover_iterations(r));
    SL_TRY(recover_times(r));
    SL_TRY(check_lengths(r));
    find_overlaps(r);
    SL_TRY(make_timeline(r));
    SL_TRY(make_order(r));
    SL_TRY(sl_profile(&r->result->timeline, &r->result->problem));
    if (r->options->mean)
        SL_TRY(average(r));
    time_pairs(r);
    divide_backwards(r);
    SL_TRY(profile_reductions(r));
    SL_TRY(sl_overhead_profile(&r->result->timeline, &r->result->problem));
    SL_TRY(check_times(&r->result->problem));
    return sl_order_check(&r->result->problem, &r->result->order);
}

sl_status sl_recover(sl_traced *traced, const sl_recover_options *options, sl_recovered *recovered) {
    *recovered = (sl_recovered){0};
    sl_recovery r = {.traced = traced, .options = options, .result = recovered};
    sl_status status = recover(&r);
    SL_FREE(r.rank_of_process, r.rank_of_stage, r.op, r.chosen, r.index);
    return status;
}

void sl_recovered_free(sl_recovered *recovered) {
    sl_problem_free(&recovered->problem);
    sl_order_free(&recovered->order);
    sl_timeline_free(&recovered->timeline);
    SL_FREE(recovered->iteration, recovered->link, recovered->offset, recovered->offset_error,
            recovered->process);
    *recovered = (sl_recovered){0};
}
