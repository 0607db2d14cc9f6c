/* Iterations: a mark that changes, or an op that comes again, begins another one on its rank. */
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/trace/recover_inside.h"

#include <stdlib.h>
#include <string.h>

#define LACKS 400

/* Head of the rank whose ops begin there; not needed with marks. */
static size_t head_of(const sl_recovery *r, size_t first, int32_t *cells) {
    size_t end = first;
    for (; end < r->ops && r->op[end].rank == r->op[first].rank; end++)
        if (r->op[end].of.mark >= 0)
            return 0;
    return sl_recover_head(r, first, end, cells);
}

/* Numbers each rank's iterations from 0 into op[].iteration; *most: of any rank, *marked: by marks. */
static sl_status number_iterations(sl_recovery *r, int *most, int *marked) {
    int32_t *seen; /* [kind][stage][microbatch] iteration + 1 that it was last seen in, of this rank */
    size_t cells = SL_OP_KINDS * (size_t)r->stages * (size_t)r->microbatches;
    int now = 0;
    size_t head_end = 0;
    SL_TRY(sl_alloc(&seen, cells, sizeof *seen));
    *most = 0;
    *marked = 1;
    for (size_t i = 0; i < r->ops; i++) {
        sl_rank_op *op = &r->op[i], *last = i && r->op[i - 1].rank == op->rank ? &r->op[i - 1] : NULL;
        const sl_op *o = &op->of.op;
        int32_t *cell =
            &seen[((size_t)o->kind * (size_t)r->stages + (size_t)o->stage) * (size_t)r->microbatches +
                  (size_t)o->microbatch];
        int marks = last && op->of.mark != last->of.mark;
        if (!last) {
            now = 0; /* no other rank has its stages, so earlier entries are not read */
            head_end = i + head_of(r, i, seen);
        } else if (i == head_end) { /* after the rest of an iteration */
            now++;
            *marked = 0;
        } else if (marks || *cell == now + 1) {
            now++;
            *marked &= marks;
        }
        *marked &= op->of.mark >= 0;
        *cell = now + 1;
        op->iteration = now;
        *most = now + 1 > *most ? now + 1 : *most;
    }
    sl_free(seen);
    return SL_OK;
}

/* The list of iterations by their numbers; op[].iteration becomes the index in it. */
static sl_status list_iterations(sl_recovery *r, int most, int marked) {
    sl_recovered *result = r->result;
    int64_t *number;
    size_t count = 0, kept = 0;
    SL_TRY(sl_alloc(&number, r->ops + (size_t)most, sizeof *number));
    for (size_t i = 0; i < r->ops && marked; i++)
        if (count == 0 || number[count - 1] != r->op[i].of.mark)
            number[count++] = r->op[i].of.mark;
    for (int i = 0; i < most && !marked; i++)
        number[count++] = i;
    qsort(number, count, sizeof *number, sl_ascending_times);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || number[i] != number[kept - 1])
            number[kept++] = number[i];
    sl_status status = sl_alloc(&result->iteration, kept, sizeof *result->iteration);
    for (size_t i = 0; i < kept && status == SL_OK; i++)
        result->iteration[i].number = number[i];
    for (size_t i = 0; i < r->ops && marked && status == SL_OK; i++) {
        const int64_t *found = bsearch(&r->op[i].of.mark, number, kept, sizeof *number, sl_ascending_times);
        r->op[i].iteration = (int)(found - number);
    }
    result->iterations = (int)kept;
    sl_free(number);
    return status;
}

/* The ops of each iteration in `listed`, in the order of r->op. */
typedef struct span_listing {
    size_t *first;  /* [iterations + 1] */
    size_t *listed; /* [ops] into r->op */
} span_listing;

static void listing_free(span_listing *l) {
    SL_FREE(l->first, l->listed);
}

static sl_status list_ops(const sl_recovery *r, span_listing *l) {
    const size_t iterations = (size_t)r->result->iterations;
    SL_TRY(sl_alloc(&l->first, iterations + 2, sizeof *l->first));
    SL_TRY(sl_alloc(&l->listed, r->ops, sizeof *l->listed));
    for (size_t i = 0; i < r->ops; i++)
        l->first[r->op[i].iteration + 2]++;
    for (size_t i = 2; i <= iterations + 1; i++)
        l->first[i] += l->first[i - 1];
    for (size_t i = 0; i < r->ops; i++) /* moves each one's begin to its end, the next one's begin */
        l->listed[l->first[r->op[i].iteration + 1]++] = i;
    return SL_OK;
}

static sl_status make_index(sl_recovery *r) {
    const size_t cells = SL_OP_KINDS * (size_t)r->stages * (size_t)r->microbatches;
    SL_TRY(sl_alloc(&r->chosen, r->ops, sizeof *r->chosen));
    SL_TRY(sl_alloc(&r->index, cells, sizeof *r->index));
    memset(r->index, 255, cells * sizeof *r->index);
    return SL_OK;
}

/* Into `chosen` and `index`, replacing the previous one. */
static void take_iteration(sl_recovery *r, const span_listing *l, int iteration) {
    for (size_t i = 0; i < r->chosens; i++) {
        const sl_op *op = &r->chosen[i].of.op;
        *sl_recovery_at(r, op->kind, op->stage, op->microbatch) = -1;
    }
    r->chosens = 0;
    for (size_t i = l->first[iteration]; i < l->first[iteration + 1]; i++) {
        const sl_rank_op *placed = &r->op[l->listed[i]];
        const sl_op *op = &placed->of.op;
        int32_t *chosen = sl_recovery_at(r, op->kind, op->stage, op->microbatch);
        if (*chosen < 0)
            *chosen = (int32_t)r->chosens;
        r->chosen[r->chosens++] = *placed;
    }
}

static int runs(const sl_recovery *r, int kind, int stage, int microbatch) {
    return *sl_recovery_at(r, kind, stage, microbatch) >= 0;
}

/* Whether the current iteration has every op; else the missing one as text. */
static int is_complete(const sl_recovery *r, char *missing, size_t size) {
    for (int stage = 0; stage < r->stages; stage++)
        for (int m = 0; m < r->microbatches; m++) {
            int full = runs(r, SL_B, stage, m), input = runs(r, SL_I, stage, m),
                weights = runs(r, SL_W, stage, m);
            const char *lacks = !runs(r, SL_F, stage, m)      ? "F"
                                : !full && !input && !weights ? "B"
                                : !full && !input             ? "I"
                                : !full && !weights           ? "W"
                                                              : NULL;
            if (!sl_problem_runs(&r->result->problem, stage, m) || !lacks)
                continue;
            const int rank = r->rank_of_stage[stage];
            snprintf(missing, size, "%s of stage %d, microbatch %d (rank %d) is missing in %.250s", lacks,
                     stage, m, rank, sl_traced_file(r->traced, r->result->process[rank]));
            return 0;
        }
    return 1;
}

static sl_time makespan_of(const sl_recovery *r) {
    sl_time first = SL_TIME_NEVER, last = INT64_MIN;
    for (size_t i = 0; i < r->chosens; i++) {
        const sl_traced_op *op = &r->chosen[i].of;
        first = op->start < first ? op->start : first;
        last = op->end > last ? op->end : last;
    }
    return r->chosens ? last - first : 0;
}

static int has_no_backward(const sl_recovery *r) {
    for (size_t i = 0; i < r->ops; i++)
        if (r->op[i].of.op.kind != SL_F)
            return 0;
    return 1;
}

static void look_at_all(sl_recovery *r, const span_listing *l, char *missing, size_t size, int *complete) {
    sl_recovered *result = r->result;
    *complete = 0;
    for (int i = 0; i < result->iterations; i++) {
        sl_traced_iteration *it = &result->iteration[i];
        char lacks[LACKS] = "";
        take_iteration(r, l, i);
        it->ops = (int)r->chosens;
        it->complete = is_complete(r, lacks, sizeof lacks);
        it->makespan = it->complete ? makespan_of(r) : 0;
        *complete += it->complete;
        if (!it->complete && (it->number == r->options->iteration || !missing[0]))
            snprintf(missing, size, "%s", lacks);
    }
}

/* The iteration of median time; the first one, cold, only if it is the only one. */
static sl_status choose(sl_recovery *r, int complete) {
    sl_recovered *result = r->result;
    sl_time *time;
    int count = 0, first = complete > 1 && result->iteration[0].complete;
    SL_TRY(sl_alloc(&time, (size_t)complete, sizeof *time));
    for (int i = first; i < result->iterations; i++)
        if (result->iteration[i].complete)
            time[count++] = result->iteration[i].makespan;
    sl_time median = sl_median(time, count);
    for (int i = result->iterations - 1; i >= first; i--)
        if (result->iteration[i].complete && result->iteration[i].makespan == median)
            result->chosen = i;
    sl_free(time);
    return SL_OK;
}

static sl_status choose_asked(sl_recovery *r, const char *missing) {
    sl_recovered *result = r->result;
    for (int i = 0; i < result->iterations; i++) {
        if (result->iteration[i].number != r->options->iteration)
            continue;
        if (!result->iteration[i].complete)
            return sl_error(SL_EINVAL, "iteration %lld was not traced completely: %s",
                            (long long)r->options->iteration, missing);
        result->chosen = i;
        return SL_OK;
    }
    char sources[SL_SOURCES];
    return sl_error(SL_EINVAL, "%s: there is no iteration %lld; %d were traced, from %lld to %lld",
                    sl_traced_sources(r->traced, sources), (long long)r->options->iteration,
                    result->iterations, (long long)result->iteration[0].number,
                    (long long)result->iteration[result->iterations - 1].number);
}

static sl_status choose_iteration(sl_recovery *r, const span_listing *l) {
    char missing[LACKS] = "";
    int complete;
    look_at_all(r, l, missing, sizeof missing, &complete);
    if (complete == 0 && r->options->iteration < 0)
        return sl_error(SL_EINVAL, "no iteration was traced completely: of %d stages and %d microbatches %s",
                        r->stages, r->microbatches, missing);
    SL_TRY(r->options->iteration >= 0 ? choose_asked(r, missing) : choose(r, complete));
    take_iteration(r, l, r->result->chosen);
    return SL_OK;
}

sl_status sl_recover_iterations(sl_recovery *r) {
    int most, marked;
    span_listing l = {0};
    SL_TRY(number_iterations(r, &most, &marked));
    if (!marked)
        SL_TRY(sl_recover_meet(r, &most));
    SL_TRY(list_iterations(r, most, marked));
    char sources[SL_SOURCES];
    if (has_no_backward(r))
        return sl_error(SL_EINVAL,
                        "%s: only forwards were traced: planning needs the backwards of every stage",
                        sl_traced_sources(r->traced, sources));
    SL_TRY(make_index(r));
    sl_status status = list_ops(r, &l);
    SL_THEN(status, choose_iteration(r, &l));
    listing_free(&l);
    return status;
}
