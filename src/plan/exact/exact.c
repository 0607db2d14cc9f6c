#include "plan/exact/exact.h"
#include "base/clock.h"
#include "base/memory.h"
#include "plan/exact/exact_model.h"
#include "plan/exact/solver.h"
#include "plan/lower/program.h"
#include "plan/timing/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GRACE_S 10 /* the solver checks its limit between steps; start and end are not included */

/* Numbers of the fields in sat_parameters.proto and of CpSolverResponse */
enum {
    PARAMETER_SEED = 31,
    PARAMETER_TIME = 36,
    PARAMETER_LINEARIZATION = 90,
    PARAMETER_CATCH_SIGINT = 135,
    PARAMETER_WORKERS = 206,
    RESPONSE_STATUS = 1,
    RESPONSE_SOLUTION = 2,
    RESPONSE_BOUND = 4
};
enum { STATUS_UNKNOWN, STATUS_INVALID, STATUS_FEASIBLE, STATUS_INFEASIBLE, STATUS_OPTIMAL };

int sl_exact_available(void) {
    sl_solver solver;
    sl_status status = sl_solver_find(&solver);
    sl_solver_free(&solver);
    return status == SL_OK;
}

/* ---- replaying orders ---- */

/* SL_EINVAL: not an order of the problem. *fits: it keeps the memory limit by the check of plans. */
static sl_status replay(const sl_problem *p, const sl_order *order, sl_regime regime, sl_timeline *timeline,
                        int *fits) {
    sl_program program = {0};
    double *peak = NULL;
    sl_status status;
    *timeline = (sl_timeline){0};
    *fits = 0;
    SL_TRY_GOTO(done, status, sl_lower(p, order, &program));
    SL_TRY_GOTO(done, status, sl_replay(p, &program, regime, p->queue, timeline));
    SL_TRY_GOTO(done, status, sl_alloc(&peak, (size_t)p->ranks, sizeof *peak));
    SL_TRY_GOTO(done, status, sl_peak_memory(p, timeline, peak));
    *fits = 1;
    for (int rank = 0; *fits && p->limit && rank < p->ranks; rank++)
        *fits = peak[rank] <= p->limit[rank] * (1 + 1e-9);
done:
    sl_free(peak);
    sl_program_free(&program);
    return status;
}

static sl_status makespan_of(const sl_problem *p, const sl_order *order, sl_time *makespan, int *fits) {
    sl_timeline timeline;
    sl_status status = replay(p, order, p->communication, &timeline, fits);
    *makespan = status == SL_OK ? sl_timeline_makespan(&timeline) : SL_TIME_NEVER;
    sl_timeline_free(&timeline);
    return status;
}

/* The hint with I and W in place of every B. */
static sl_status split_backwards(const sl_problem *p, const sl_order *hint, sl_order *split) {
    int most = 0;
    for (int rank = 0; rank < p->ranks; rank++) {
        int ops = sl_problem_rank_ops(p, rank, 3);
        most = ops > most ? ops : most;
    }
    SL_TRY(sl_order_make(p->ranks, most, split));
    for (int rank = 0; rank < p->ranks; rank++)
        for (int i = 0; i < hint->count[rank]; i++) {
            sl_op op = hint->ops[rank][i];
            op.paired = 0;
            if (op.kind == SL_B) {
                op.kind = SL_I;
                split->ops[rank][split->count[rank]++] = op;
                op.kind = SL_W;
            }
            split->ops[rank][split->count[rank]++] = op;
        }
    return SL_OK;
}

/* Whether separate I and W can do all that B can. */
static int split_is_best(const sl_problem *p) {
    for (int s = 0; s < p->stages; s++) {
        if (p->saved[s] > 0 || p->time[SL_B][s] < p->time[SL_I][s] + p->time[SL_W][s])
            return 0;
        if (p->limit && (p->delta[SL_I][s] > 0 || p->delta[SL_I][s] + p->delta[SL_W][s] > p->delta[SL_B][s]))
            return 0;
    }
    return 1;
}

/* ---- asking ---- */

typedef struct exact_answer {
    int64_t status;
    double bound; /* units */
    int64_t *solution;
    size_t count;
} exact_answer;

static sl_status read_solution(const sl_protobuf_field *field, exact_answer *a, size_t *capacity) {
    const unsigned char *bytes = field->bytes;
    size_t size = field->size;
    uint64_t value = field->value;
    if (!bytes) { /* not packed */
        SL_TRY(sl_grow(&a->solution, capacity, a->count + 1, sizeof *a->solution));
        a->solution[a->count++] = (int64_t)value;
    }
    while (bytes && size > 0) {
        if (!sl_protobuf_varint(&bytes, &size, &value))
            return sl_error(SL_ESYS, "the solver's response breaks off");
        SL_TRY(sl_grow(&a->solution, capacity, a->count + 1, sizeof *a->solution));
        a->solution[a->count++] = (int64_t)value;
    }
    return SL_OK;
}

static sl_status read_answer(const sl_blob *response, exact_answer *a) {
    const unsigned char *bytes = response->bytes;
    size_t size = response->size, capacity = 0;
    sl_protobuf_field field;
    int more;
    while ((more = sl_protobuf_next(&bytes, &size, &field)) > 0) {
        if (field.number == RESPONSE_STATUS)
            a->status = (int64_t)field.value;
        else if (field.number == RESPONSE_BOUND)
            memcpy(&a->bound, &field.value, sizeof a->bound);
        else if (field.number == RESPONSE_SOLUTION)
            SL_TRY(read_solution(&field, a, &capacity));
    }
    if (more < 0)
        return sl_error(SL_ESYS, "the solver's response is not a CpSolverResponse");
    return a->status == STATUS_INVALID ? sl_error(SL_ESYS, "the solver calls the model invalid") : SL_OK;
}

static void set_parameters(double time_limit_s, int threads, uint64_t seed, sl_protobuf *parameters) {
    if (threads <= 0) {
        long processors = sysconf(_SC_NPROCESSORS_ONLN);
        threads = processors < 1 ? 1 : processors > 8 ? 8 : (int)processors;
    }
    sl_protobuf_double(parameters, PARAMETER_TIME, time_limit_s);
    sl_protobuf_int(parameters, PARAMETER_WORKERS, threads);
    sl_protobuf_int(parameters, PARAMETER_SEED, (int64_t)(seed % INT32_MAX));
    sl_protobuf_int(parameters, PARAMETER_CATCH_SIGINT, 0);
    sl_protobuf_int(parameters, PARAMETER_LINEARIZATION, 0); /* linear programs help little here, and are
                                                                slow */
}

static sl_status ask(const sl_solver *solver, const sl_exact_model *model, double time_limit_s, int threads,
                     uint64_t seed, const atomic_int *stop, exact_answer *a) {
    sl_protobuf parameters = {0};
    sl_blob response = {0};
    set_parameters(time_limit_s, threads, seed, &parameters);
    sl_status status = parameters.status;
    SL_THEN(status, sl_solver_run(solver, &(sl_blob){model->proto.bytes, model->proto.size},
                                  &(sl_blob){parameters.bytes, parameters.size}, time_limit_s + GRACE_S, stop,
                                  &response));
    SL_THEN(status, read_answer(&response, a));
    sl_free(response.bytes);
    sl_protobuf_free(&parameters);
    return status;
}

/* ---- from solution to order ---- */

typedef struct timed {
    int64_t start, end;
    sl_op op;
} timed;

/* Zero-length ops come before ops that start at the same time, in data order. */
static int earlier(const void *a, const void *b) {
    const timed *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    if (x->op.kind != y->op.kind)
        return x->op.kind < y->op.kind ? -1 : 1;
    int up = x->op.kind == SL_F ? 1 : -1;
    if (x->op.stage != y->op.stage)
        return x->op.stage < y->op.stage ? -up : up;
    return x->op.microbatch < y->op.microbatch ? -1 : x->op.microbatch > y->op.microbatch;
}

static sl_status read_rank(const sl_problem *p, const sl_exact_model *model, const exact_answer *a, int rank,
                           timed *ops, sl_order *order) {
    size_t count = 0;
    for (int stage = 0; stage < p->stages; stage++)
        for (int m = 0; sl_problem_rank(p, stage) == rank && m < p->microbatches; m++)
            for (int kind = SL_F; sl_problem_runs(p, stage, m) && kind <= SL_W; kind++) {
                size_t at = ((size_t)stage * (size_t)p->microbatches + (size_t)m) * 3 + (size_t)kind;
                int64_t start = a->solution[model->start[at]];
                ops[count++] = (timed){.start = start,
                                       .end = start + p->time[kind][stage] / model->unit,
                                       .op = {.stage = stage, .microbatch = m, .kind = kind}};
            }
    qsort(ops, count, sizeof *ops, earlier);
    for (size_t i = 0; i < count; i++)
        order->ops[rank][order->count[rank]++] = ops[i].op;
    return SL_OK;
}

static sl_status read_order(const sl_problem *p, const sl_exact_model *model, const exact_answer *a,
                            sl_order *order) {
    size_t most = 0;
    timed *ops;
    if (a->count != (size_t)model->variables)
        return sl_error(SL_ESYS, "the solver's response has %zu values for %d variables", a->count,
                        model->variables);
    for (int rank = 0; rank < p->ranks; rank++) {
        size_t here = (size_t)sl_problem_rank_ops(p, rank, 3);
        most = here > most ? here : most;
    }
    SL_TRY(sl_alloc(&ops, most, sizeof *ops));
    sl_status status = sl_order_make(p->ranks, (int)most, order);
    for (int rank = 0; rank < p->ranks && status == SL_OK; rank++)
        status = read_rank(p, model, a, rank, ops, order);
    sl_free(ops);
    return status;
}

/* ---- solve ---- */

static void raise_bound(const sl_exact_model *model, const exact_answer *a, sl_exact_result *result) {
    double units = ceil(a->bound - 1e-6) - (double)model->begin;
    if (a->status == STATUS_INFEASIBLE || !(units > 0) || units > (double)model->upper)
        return;
    sl_time bound = (sl_time)units * model->unit;
    result->bound = bound > result->bound ? bound : result->bound;
}

/* The solver's order becomes the result if its replay is better than the present one. */
static sl_status keep_order(const sl_problem *p, const sl_exact_model *model, const exact_answer *a,
                            sl_exact_result *result) {
    sl_order order = {0};
    sl_time makespan;
    int fits;
    if (a->status != STATUS_FEASIBLE && a->status != STATUS_OPTIMAL)
        return SL_OK;
    sl_status status = read_order(p, model, a, &order);
    SL_THEN(status, makespan_of(p, &order, &makespan, &fits));
    if (status == SL_OK && fits && makespan < result->makespan) {
        result->found = 1;
        result->makespan = makespan;
        result->order = order;
        return SL_OK;
    }
    sl_order_free(&order);
    return status;
}

static sl_status solve(const sl_problem *p, const sl_solver *solver, const sl_timeline *hint,
                       double time_limit_s, int threads, uint64_t seed, const atomic_int *stop,
                       sl_exact_result *result) {
    sl_exact_model model;
    exact_answer a = {0};
    sl_time from = sl_now();
    sl_status status = sl_exact_model_make(p, hint, result->bound, &model);
    SL_THEN(status, ask(solver, &model, time_limit_s, threads, seed, stop, &a));
    result->solve_s = (double)(sl_now() - from) / (double)SL_SECOND;
    if (status != SL_OK)
        goto done;
    if (a.status == STATUS_INFEASIBLE && model.memory_exact) {
        status = hint ? sl_error(SL_ESYS, "the solver finds no schedule, but was given one")
                      : sl_error(SL_ENONE, "no schedule keeps the memory limit (proven by the exact solver)");
        goto done;
    }
    if (model.memory_exact && split_is_best(p))
        raise_bound(&model, &a, result);
    if (p->communication == SL_DECOUPLED)
        status = keep_order(p, &model, &a, result);
done:
    sl_free(a.solution);
    sl_exact_model_free(&model);
    return status;
}

/* The decoupled timeline of the hint with separate I and W, if that keeps the memory limit. */
static sl_status read_hint(const sl_problem *p, const sl_order *hint, sl_exact_result *result,
                           sl_timeline *timeline, int *usable) {
    sl_order split = {0};
    int fits;
    SL_TRY(makespan_of(p, hint, &result->makespan, &fits));
    if (!fits)
        result->makespan = SL_TIME_NEVER;
    sl_status status = split_backwards(p, hint, &split);
    SL_THEN(status, replay(p, &split, SL_DECOUPLED, timeline, usable));
    sl_order_free(&split);
    return status;
}

sl_status sl_exact_solve(const sl_problem *p, const sl_order *hint, double time_limit_s, int threads,
                         uint64_t seed, sl_time known_bound, const atomic_int *stop,
                         sl_exact_result *result) {
    sl_solver solver = {0};
    sl_timeline timeline = {0};
    int usable = 0;
    sl_status status = SL_OK;
    *result = (sl_exact_result){.makespan = SL_TIME_NEVER, .bound = known_bound};
    if (p->parts > 1)
        return sl_error(SL_ENONE, "the exact solver takes whole ops; this problem has parts: %d", p->parts);
    if (hint)
        SL_TRY_GOTO(done, status, read_hint(p, hint, result, &timeline, &usable));
    if (result->makespan > result->bound) {
        SL_TRY_GOTO(done, status, sl_solver_find(&solver));
        SL_TRY_GOTO(done, status,
                    solve(p, &solver, usable ? &timeline : NULL, time_limit_s, threads, seed, stop, result));
    }
    result->proven = result->makespan <= result->bound;
done:
    sl_timeline_free(&timeline);
    sl_solver_free(&solver);
    return status;
}
