#include "plan/exact/exact_model.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/exact/exact_model_inside.h"

#include <stdlib.h>

#define MAX_OPS 60000              /* the model grows with the square of a rank's ops */
#define HORIZON ((int64_t)1 << 48) /* units; CP-SAT adds coefficients times these in int64 */

/* The microbatch that runs through the stage before `microbatch`; -1: none. With `microbatches`: the last. */
static int microbatch_before(const sl_problem *p, int stage, int microbatch) {
    for (microbatch--; microbatch >= 0 && !sl_problem_runs(p, stage, microbatch); microbatch--)
        ;
    return microbatch;
}

static void add_rank(sl_builder *b, int rank) {
    const sl_problem *p = b->p;
    for (int stage = 0; stage < p->stages; stage++)
        for (int m = 0; sl_problem_rank(p, stage) == rank && m < p->microbatches; m++)
            for (int kind = 0; sl_problem_runs(p, stage, m) && kind <= SL_W; kind++) {
                size_t at = sl_build_index(p, stage, m, kind);
                int32_t variable = sl_build_variable(b, 0, b->model->upper,
                                                     b->hint ? b->hint_start[at] / b->model->unit : 0);
                b->model->start[at] = variable;
                sl_build_item(b, &b->intervals,
                              sl_build_fixed_interval(b, (sl_exact_time){variable, 0},
                                                      sl_build_length(b, stage, kind)));
                int before = microbatch_before(p, stage, m);
                if (before >= 0)
                    sl_build_precedence(b, sl_build_end_of(b, stage, before, kind),
                                        (sl_exact_time){variable, 0}, 0);
                if (kind > SL_F)
                    sl_build_precedence(b, sl_build_end_of(b, stage, m, kind - 1),
                                        (sl_exact_time){variable, 0}, 0);
            }
    sl_build_no_overlap(b);
}

/* ---- the ends ---- */

static void add_gathers(sl_builder *b, int rank) {
    const sl_problem *p = b->p;
    for (int stage = 0; stage < p->stages; stage++) {
        int first = sl_problem_runs(p, stage, 0) ? 0 : 1;
        if (sl_problem_rank(p, stage) != rank || p->gather[stage] == 0 || first >= p->microbatches)
            continue;
        sl_exact_time forward = sl_build_start_of(b, stage, first, SL_F);
        int64_t size = p->gather[stage] / b->model->unit;
        if (sl_build_stages_of(p, rank) == 1) {
            sl_build_precedence(b, (sl_exact_time){-1, 0}, forward, size);
            continue;
        }
        sl_exact_time start = {sl_build_variable(b, 0, b->model->upper, 0), 0};
        sl_build_item(b, &b->intervals, sl_build_fixed_interval(b, start, size));
        sl_build_precedence(b, start, forward, size);
    }
    sl_build_no_overlap(b);
}

/* All ops end before the makespan; also with the rank's whole work before it, which the solver would
 * otherwise have to derive. */
static void add_end(sl_builder *b, int rank) {
    const sl_problem *p = b->p;
    sl_exact_time end = {b->makespan, 0};
    int alone = sl_build_stages_of(p, rank) == 1;
    for (int stage = 0; stage < p->stages; stage++) {
        int last = microbatch_before(p, stage, p->microbatches);
        if (sl_problem_rank(p, stage) != rank || last < 0)
            continue;
        int64_t size = p->reduce[stage] / b->model->unit;
        sl_exact_time done = sl_build_end_of(b, stage, last, SL_W);
        if (alone || size == 0) {
            sl_build_precedence(b, done, end, size);
        } else {
            sl_exact_time start = {sl_build_variable(b, 0, b->model->upper, sl_build_hinted(b, done)), 0};
            sl_build_item(b, &b->intervals, sl_build_fixed_interval(b, start, size));
            sl_build_precedence(b, done, start, 0);
            sl_build_precedence(b, start, end, size);
        }
        if (alone) {
            int64_t work = 0;
            for (int kind = SL_F; kind <= SL_W; kind++)
                work += sl_problem_microbatches(p, stage) * sl_build_length(b, stage, kind);
            sl_build_precedence(b, sl_build_start_of(b, stage, 0, SL_F), end, work + size);
        }
    }
    sl_build_no_overlap(b);
}

/* Whether the first F of all starts at a known time: after stage 0's gather, or at 0. With a bidirectional
 * placement, either of the two first stages may be the first if gathers delay one. */
static int known_begin(const sl_problem *p, int64_t unit, int64_t *begin) {
    *begin = p->placement == SL_BIDIRECTIONAL ? 0 : p->gather[0] / unit;
    for (int stage = 0; p->placement == SL_BIDIRECTIONAL && stage < p->stages; stage++)
        if (p->gather[stage] > 0)
            return 0;
    return 1;
}

/* The end of all minus the start of the first F. */
static void add_objective(sl_builder *b, sl_time known_bound, int64_t horizon) {
    int64_t variables[2] = {b->makespan, -1}, coefficients[2] = {1, -1}, begin;
    sl_exact_time first = {-1, 0}, end = {b->makespan, 0}, down = sl_build_start_of(b, 0, 0, SL_F),
                  up = {-1, 0};
    if (b->p->placement == SL_BIDIRECTIONAL && b->p->microbatches > 1)
        up = sl_build_start_of(b, b->p->ranks, 1, SL_F);
    if (known_begin(b->p, b->model->unit, &begin)) {
        first.offset = begin;
        if (b->p->placement != SL_BIDIRECTIONAL) /* on its rank every other op comes after it */
            sl_build_precedence(b, down, first, 0);
    } else {
        int64_t hint = sl_build_hinted(b, down);
        if (up.variable >= 0 && sl_build_hinted(b, up) < hint)
            hint = sl_build_hinted(b, up);
        first.variable = sl_build_variable(b, 0, horizon, hint);
        sl_build_precedence(b, first, down, 0);
        if (up.variable >= 0)
            sl_build_precedence(b, first, up, 0);
    }
    variables[1] = first.variable;
    sl_build_precedence(b, first, end, sl_build_divide_up(known_bound, b->model->unit));
    sl_build_precedence(b, end, first, -b->model->upper);
    b->model->begin = first.offset;
    sl_protobuf_clear(&b->one);
    sl_protobuf_ints(&b->one, OBJECTIVE_VARIABLES, variables, first.variable < 0 ? 1 : 2);
    sl_protobuf_ints(&b->one, OBJECTIVE_COEFFICIENTS, coefficients, first.variable < 0 ? 1 : 2);
    sl_protobuf_nest(&b->model->proto, MODEL_OBJECTIVE, &b->one);
}

static void add_hint(sl_builder *b) {
    sl_items variables = {0};
    for (int i = 0; i < b->model->variables; i++)
        sl_build_item(b, &variables, i);
    if (b->status == SL_OK) {
        sl_protobuf_clear(&b->one);
        sl_protobuf_ints(&b->one, HINT_VARIABLES, variables.item, variables.count);
        sl_protobuf_ints(&b->one, HINT_VALUES, b->hint_value, variables.count);
        sl_protobuf_nest(&b->model->proto, MODEL_HINT, &b->one);
    }
    sl_free(variables.item);
}

/* ---- units, horizon, hint ---- */

static sl_time divisor(sl_time a, sl_time b) {
    while (b) {
        sl_time rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static sl_time unit_of(const sl_problem *p) {
    sl_time unit = 0;
    for (int stage = 0; stage < p->stages; stage++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            unit = divisor(unit, p->time[kind][stage]);
        unit = divisor(divisor(unit, p->gather[stage]), p->reduce[stage]);
    }
    for (int i = 0; i < p->ranks * p->ranks; i++)
        unit = divisor(divisor(unit, p->link[i].latency), p->link[i].transfer);
    return unit ? unit : 1;
}

/* Everything in a row. */
static double total(const sl_builder *b) {
    const sl_problem *p = b->p;
    double sum = 0;
    for (int stage = 0; stage < p->stages; stage++) {
        double n = sl_problem_microbatches(p, stage);
        sl_exact_flow f;
        for (int kind = SL_F; kind <= SL_W; kind++) {
            sum += n * (double)sl_build_length(b, stage, kind);
            if (kind <= SL_I && sl_build_flow_of(b, stage, kind, &f))
                sum += n * (double)(f.transfer + f.latency);
        }
        sum += (double)((p->gather[stage] + p->reduce[stage]) / b->model->unit);
    }
    return sum;
}

/* The hint's starts of each kind and stage, in ascending order for ascending microbatches: a schedule stays
 * valid if microbatches, which are alike, are renumbered. */
static sl_status sort_hint(sl_builder *b) {
    const sl_problem *p = b->p;
    sl_time *starts;
    for (int i = 0; i < b->hint->spans; i++) {
        const sl_span *span = &b->hint->span[i];
        b->hint_start[sl_build_index(p, span->op.stage, span->op.microbatch, span->op.kind)] = span->start;
    }
    SL_TRY(sl_alloc(&starts, (size_t)p->microbatches, sizeof *starts));
    for (int stage = 0; stage < p->stages; stage++)
        for (int kind = SL_F; kind <= SL_W; kind++) {
            size_t count = 0, next = 0;
            for (int m = 0; m < p->microbatches; m++)
                if (sl_problem_runs(p, stage, m))
                    starts[count++] = b->hint_start[sl_build_index(p, stage, m, kind)];
            qsort(starts, count, sizeof *starts, sl_ascending_times);
            for (int m = 0; m < p->microbatches; m++)
                if (sl_problem_runs(p, stage, m))
                    b->hint_start[sl_build_index(p, stage, m, kind)] = starts[next++];
        }
    sl_free(starts);
    return SL_OK;
}

static sl_status prepare(sl_builder *b) {
    const sl_problem *p = b->p;
    size_t ops = (size_t)p->stages * (size_t)p->microbatches * 3;
    if (ops > MAX_OPS)
        return sl_error(SL_ENONE, "the exact solver takes %d ops, this problem has %zu", MAX_OPS, ops);
    SL_TRY(sl_alloc(&b->model->start, ops, sizeof *b->model->start));
    for (size_t i = 0; i < ops; i++)
        b->model->start[i] = -1;
    b->model->unit = unit_of(p);
    b->model->memory_exact = 1;
    double row = total(b);
    if (row > (double)HORIZON)
        return sl_error(SL_ENONE, "the times of this problem are too fine for the exact solver");
    b->model->upper = (int64_t)row;
    if (b->hint) {
        SL_TRY(sl_alloc(&b->hint_start, ops, sizeof *b->hint_start));
        SL_TRY(sort_hint(b));
        b->model->upper = sl_timeline_makespan(b->hint) / b->model->unit;
    }
    if (!p->limit)
        return SL_OK;
    SL_TRY(sl_exact_memory_make(p, &b->memory));
    b->model->memory_exact = b->memory.exact;
    return SL_OK;
}

static sl_status build(sl_builder *b, sl_time known_bound) {
    sl_time length =
        b->model->upper; /* of the makespan; ops may end later if the first F waits for a gather */
    int64_t begin, latest = 0, horizon;
    for (int i = 0; b->hint && i < b->hint->spans; i++)
        latest = b->hint->span[i].end > latest ? b->hint->span[i].end : latest;
    for (int i = 0; b->hint && i < b->hint->collectives; i++)
        latest = b->hint->collective[i].end > latest ? b->hint->collective[i].end : latest;
    latest /= b->model->unit;
    /* if the begin is unknown, a shorter schedule may end later */
    if (b->hint)
        b->model->upper = known_begin(b->p, b->model->unit, &begin) ? latest : (int64_t)total(b);
    for (int rank = 0; rank < b->p->ranks; rank++)
        add_rank(b, rank);
    sl_build_messages(b);
    for (int rank = 0; b->p->limit && rank < b->p->ranks; rank++)
        sl_build_memory(b, rank);
    b->makespan = sl_build_variable(b, 0, b->model->upper, latest);
    for (int rank = 0; rank < b->p->ranks; rank++) {
        add_gathers(b, rank);
        add_end(b, rank);
    }
    horizon = b->model->upper;
    b->model->upper = length;
    add_objective(b, known_bound, horizon);
    if (b->hint)
        add_hint(b);
    return b->status != SL_OK ? b->status : b->model->proto.status;
}

sl_status sl_exact_model_make(const sl_problem *problem, const sl_timeline *hint, sl_time known_bound,
                              sl_exact_model *model) {
    sl_builder b = {.p = problem, .model = model, .hint = hint};
    *model = (sl_exact_model){0};
    sl_status status = prepare(&b);
    SL_THEN(status, build(&b, known_bound));
    sl_exact_memory_free(&b.memory);
    sl_protobuf_free(&b.one);
    sl_protobuf_free(&b.two);
    sl_protobuf_free(&b.three);
    SL_FREE(b.intervals.item, b.hint_value, b.hint_start);
    return status;
}

void sl_exact_model_free(sl_exact_model *model) {
    sl_protobuf_free(&model->proto);
    sl_free(model->start);
    *model = (sl_exact_model){0};
}
