#include "choose/search/shape_split.h"
#include "adapt/balance/balance.h"
#include "adapt/balance/pipelines.h"
#include "base/memory.h"
#include "plan/pipeline/layers.h"
#include "plan/search/layer_cut.h"

#include <math.h>
#include <string.h>

#define SEARCHING                                                                                            \
    0.5 /* of the time: for the cut, on the replica with the most work; the rest for the order */

/* Work of all layers for a microbatch, and the speeds of all ranks together. */
static double whole_work(const sl_problem *p, double *speeds) {
    const sl_layers *l = p->layers;
    double work = 0;
    for (int layer = 0; layer < l->count; layer++)
        work += (double)(l->time[SL_F][layer] +
                         sl_sooner(l->time[SL_B][layer], l->time[SL_I][layer] + l->time[SL_W][layer]));
    *speeds = 0;
    for (int rank = 0; rank < p->ranks; rank++)
        *speeds += l->speed[rank];
    return work;
}

/* ---- the bound ---- */

/* Each kind of replicas has at least one microbatch, and all together share out all of them. */
static sl_status bound_kinds(const sl_shape_planning *s, const sl_shape *shape, const sl_replica_kinds *kinds,
                             sl_shape_bound *bound, double *guess) {
    double rate = 0, update = INFINITY;
    *bound = (sl_shape_bound){0};
    for (int kind = 0; kind < kinds->count; kind++) {
        const sl_replica_kind *k = &kinds->kind[kind];
        sl_problem p;
        sl_shape_parts parts;
        sl_shape_bound one = {0};
        double speeds, work;
        sl_status status = sl_shape_problem(s->model, s->devices, &k->positions, shape, 1, &p, &parts);
        SL_THEN(status, sl_shape_bound_of(&p, &parts, &one));
        if (status == SL_OK) {
            work = whole_work(&p, &speeds);
            rate += k->replicas * speeds / fmax(work - 3.0 * s->model->layers, 1); /* ops are rounded */
            update = fmin(update, parts.update * 1e9);
            bound->time = sl_later(bound->time, one.time);
            bound->memory = fmax(bound->memory, one.memory);
        }
        sl_problem_free(&p);
        SL_TRY(status);
    }
    double shared = (double)sl_shape_total(s->model, shape) / rate, all = (shared + update) * (1 - 1e-9);
    if (bound->time < SL_TIME_NEVER && all < 9e18)
        bound->time = sl_later(bound->time, (sl_time)all);
    *guess = fmax((double)bound->time,
                  shared * (1 + (shape->pipeline - 1.0) / shape->chunks / shape->microbatches) + update);
    return SL_OK;
}

sl_status sl_split_bound(const sl_shape_planning *s, const sl_shape *shape, sl_shape_bound *bound,
                         double *guess) {
    sl_replica_kinds kinds;
    *bound = (sl_shape_bound){.time = SL_TIME_NEVER};
    sl_status status = sl_replica_kinds_of(s->positions, shape, &kinds);
    if (status == SL_OK && kinds.count > 1)
        status = bound_kinds(s, shape, &kinds, bound, guess);
    sl_replica_kinds_free(&kinds);
    return status;
}

/* ---- a plan ---- */

typedef struct replica_split {
    const sl_shape_planning *planning;
    const sl_shape *shape;
    sl_replica_kinds kinds;
    sl_problem *problem; /* [kinds] of the most microbatches of a kind */
    sl_shape_parts *parts;
    int *split, *most; /* [data]; [kinds] */
} replica_split;

static sl_status problem_of_kind(replica_split *s, int kind, int microbatches) {
    sl_problem_free(&s->problem[kind]);
    return sl_shape_problem(s->planning->model, s->planning->devices, &s->kinds.kind[kind].positions,
                            s->shape, microbatches, &s->problem[kind], &s->parts[kind]);
}

static void find_most(replica_split *s) {
    memset(s->most, 0, (size_t)s->kinds.count * sizeof *s->most);
    for (int replica = 0; replica < s->shape->data; replica++) {
        int *most = &s->most[s->kinds.of[replica]];
        *most = s->split[replica] > *most ? s->split[replica] : *most;
    }
}

/* By the work of the busiest rank in a balanced cut, with a pipeline's filling. *longest: the kind that takes
 * longest. SL_ENONE: a kind has no cut within its memory. */
static sl_status split_by_rates(replica_split *s, int *longest) {
    sl_replica_rate *rate;
    double makespan, slowest = 0;
    SL_TRY(sl_alloc(&rate, (size_t)s->shape->data, sizeof *rate));
    sl_status status = SL_OK;
    for (int kind = 0; kind < s->kinds.count && status == SL_OK; kind++) {
        status = problem_of_kind(s, kind, 1);
        SL_THEN(status, sl_cut_balance(&s->problem[kind]));
        for (int replica = 0; replica < s->shape->data && status == SL_OK; replica++)
            if (s->kinds.of[replica] == kind)
                rate[replica] = (sl_replica_rate){
                    .time = fmax(1, sl_shape_busiest(&s->problem[kind])),
                    .fill = floor(1048576.0 * (s->shape->pipeline - 1) / s->shape->chunks) / 1048576};
    }
    long long total = sl_shape_total(s->planning->model, s->shape);
    if (status == SL_OK && total > INT32_MAX)
        status = sl_error(SL_ENONE, "%lld microbatches", total);
    SL_THEN(status, sl_balance(rate, s->shape->data, (int)total, s->split, &makespan));
    for (int replica = 0; replica < s->shape->data && status == SL_OK; replica++) {
        double mine = sl_replica_time(&rate[replica], s->split[replica]);
        if (mine > slowest) {
            slowest = mine;
            *longest = s->kinds.of[replica];
        }
    }
    sl_free(rate);
    return status;
}

/* The cut of one kind, for all. */
static sl_status cut_like(replica_split *s, int one) {
    const sl_problem *from = &s->problem[one];
    for (int kind = 0; kind < s->kinds.count; kind++) {
        if (kind == one)
            continue;
        SL_TRY(problem_of_kind(s, kind, s->most[kind]));
        memcpy(s->problem[kind].recompute, from->recompute, (size_t)from->stages);
        sl_problem_cut(&s->problem[kind], from->layers->first);
    }
    return SL_OK;
}

/* By the plans of families, once the cut is known. */
static sl_status split_by_plans(replica_split *s) {
    sl_pipelines *pipelines = NULL;
    sl_problem *stages;
    sl_time *time = NULL;
    int data = s->shape->data, total = (int)sl_shape_total(s->planning->model, s->shape);
    SL_TRY(sl_alloc(&stages, (size_t)s->kinds.count, sizeof *stages));
    sl_status status = sl_alloc(&time, (size_t)data, sizeof *time);
    SL_THEN(status, sl_pipelines_open("auto", total, &pipelines));
    for (int kind = 0; kind < s->kinds.count && status == SL_OK; kind++) {
        status = sl_problem_copy(&s->problem[kind], &stages[kind]);
        if (status == SL_OK) {
            sl_layers_free(stages[kind].layers);
            stages[kind].layers = NULL;
        }
    }
    for (int replica = 0; replica < data && status == SL_OK; replica++)
        status = sl_pipelines_add(pipelines, &stages[s->kinds.of[replica]], 0);
    SL_THEN(status, sl_pipelines_balance(pipelines, total, NULL, s->split, time));
    sl_pipelines_close(pipelines);
    for (int kind = 0; kind < s->kinds.count; kind++)
        sl_problem_free(&stages[kind]);
    SL_FREE(stages, time);
    return status;
}

/* `made` takes over the problem of the kind that takes longest. */
static sl_status plan_kinds(replica_split *s, double seconds, int threads, sl_choice *made) {
    sl_plan *plan;
    int slowest = 0;
    double memory = 0, host = 0;
    SL_TRY(sl_alloc(&plan, (size_t)s->kinds.count, sizeof *plan));
    sl_status status = SL_OK;
    for (int kind = 0; kind < s->kinds.count && status == SL_OK; kind++) {
        s->problem[kind].microbatches = s->most[kind];
        status =
            sl_shape_plan_cut(s->planning, &s->problem[kind], seconds / s->kinds.count, threads, &plan[kind]);
        if (status != SL_OK)
            break;
        sl_choice one = {.problem = s->problem[kind], .plan = plan[kind], .parts = s->parts[kind]};
        sl_shape_measure(s->planning, &one);
        memory = fmax(memory, one.memory);
        host = fmax(host, one.host_memory);
        if (kind == 0 || one.time > made->time) {
            slowest = kind;
            made->time = one.time;
            made->tokens_per_s = one.tokens_per_s;
        }
    }
    if (status == SL_OK) {
        made->problem = s->problem[slowest];
        made->plan = plan[slowest];
        made->parts = s->parts[slowest];
        made->memory = memory;
        made->host_memory = host;
        s->problem[slowest] = (sl_problem){0};
        plan[slowest] = (sl_plan){0};
    }
    for (int kind = 0; kind < s->kinds.count; kind++)
        sl_plan_free(&plan[kind]);
    sl_free(plan);
    return status;
}

static sl_status plan_split(replica_split *s, double seconds, int threads, sl_choice *made) {
    sl_plan plan = {0};
    int longest = 0;
    SL_TRY(split_by_rates(s, &longest));
    find_most(s);
    /* a plan for its cut alone */
    SL_TRY(problem_of_kind(s, longest, s->most[longest]));
    const sl_plan_options options = {.schedule = "auto",
                                     .time_limit = SEARCHING * seconds,
                                     .seed = s->planning->options->seed,
                                     .threads = threads,
                                     .stop = s->planning->options->stop};
    sl_status status = seconds > 0 && !s->planning->options->schedules
                           ? sl_plan_problem(&s->problem[longest], &options, &plan)
                           : sl_cut_balance(&s->problem[longest]);
    sl_plan_free(&plan);
    SL_TRY(status);
    SL_TRY(cut_like(s, longest));
    if (!s->planning->options->schedules) {
        SL_TRY(split_by_plans(s));
        find_most(s);
    }
    SL_TRY(plan_kinds(s, (1 - SEARCHING) * seconds, threads, made));
    made->split = s->split;
    s->split = NULL;
    return SL_OK;
}

sl_status sl_split_plan(const sl_shape_planning *planning, const sl_shape *shape, sl_time bound,
                        double seconds, int threads, sl_choice *made) {
    replica_split s = {.planning = planning, .shape = shape};
    *made = (sl_choice){.shape = *shape, .bound = bound};
    sl_status status = sl_replica_kinds_of(planning->positions, shape, &s.kinds);
    size_t kinds = (size_t)s.kinds.count;
    SL_THEN(status, sl_alloc(&s.problem, kinds, sizeof *s.problem));
    SL_THEN(status, sl_alloc(&s.parts, kinds, sizeof *s.parts));
    SL_THEN(status, sl_alloc(&s.most, kinds, sizeof *s.most));
    SL_THEN(status, sl_alloc(&s.split, (size_t)shape->data, sizeof *s.split));
    SL_THEN(status, plan_split(&s, seconds, threads, made));
    for (size_t kind = 0; s.problem && kind < kinds; kind++)
        sl_problem_free(&s.problem[kind]);
    SL_FREE(s.problem, s.parts, s.most, s.split);
    sl_replica_kinds_free(&s.kinds);
    return status == SL_EINVAL ? sl_error(SL_ENONE, "the split is beyond a planner's limits") : status;
}
