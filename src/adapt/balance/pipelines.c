#include "adapt/balance/pipelines.h"
#include "adapt/balance/balance.h"
#include "base/memory.h"
#include "plan/family/family.h"
#include "plan/search/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Equal replicas. */
typedef struct pipeline_kind {
    const sl_problem *source; /* the caller's; compared, never read */
    double asked;             /* time of a microbatch, or 0 */
    sl_problem problem;       /* a copy, with scaled times */
    int most;                 /* microbatches that a problem may have */
    double *time;             /* [most + 1] by microbatches, never falling; 0: not requested */
    sl_time *planned;         /* [most + 1] as planned */
} pipeline_kind;

struct sl_pipelines {
    char schedule[32];
    int most, plans;
    pipeline_kind *kind;
    size_t kinds, kind_room;
    int *of; /* [replicas] kind of a replica */
    size_t replicas, replica_room;
};

sl_status sl_pipelines_open(const char *schedule, int most, sl_pipelines **pipelines) {
    if (!sl_family_find(schedule) && strcmp(schedule, "auto") != 0)
        return sl_error(SL_EINVAL, "unknown schedule '%s': give a family's name or auto", schedule);
    if (most < 1)
        return sl_error(SL_EINVAL, "replicas take at least 1 microbatch, not %d", most);
    SL_TRY(sl_alloc(pipelines, 1, sizeof **pipelines));
    snprintf((*pipelines)->schedule, sizeof(*pipelines)->schedule, "%s", schedule);
    (*pipelines)->most = most;
    return SL_OK;
}

static void free_kind(pipeline_kind *k) {
    sl_problem_free(&k->problem);
    SL_FREE(k->time, k->planned);
}

void sl_pipelines_close(sl_pipelines *p) {
    if (!p)
        return;
    for (size_t i = 0; i < p->kinds; i++)
        free_kind(&p->kind[i]);
    SL_FREE(p->kind, p->of, p);
}

sl_time sl_pipelines_busiest(const sl_problem *problem) {
    sl_time most = 0;
    for (int rank = 0; rank < problem->ranks; rank++) {
        sl_time work = 0;
        for (int stage = 0; stage < problem->stages; stage++)
            if (sl_problem_rank(problem, stage) == rank)
                work += problem->time[SL_F][stage] + problem->time[SL_I][stage] + problem->time[SL_W][stage];
        most = work > most ? work : most;
    }
    return most;
}

/* ---- times of the ops ---- */

static sl_status multiply(sl_problem *p, double factor) {
    for (int op = 0; op < SL_OP_KINDS; op++)
        for (int stage = 0; stage < p->stages; stage++) {
            double time = (double)p->time[op][stage] * factor, most = (op == SL_B ? 2 : 1) * SL_MAX_OP_MS;
            if (time / 1e6 > most)
                return sl_error(SL_EINVAL, "%s of stage %d would take %g ms; at most %g", sl_op_name(op),
                                stage, time / 1e6, most);
            p->time[op][stage] = (sl_time)(time + 0.5);
        }
    for (int stage = 0; stage < p->stages; stage++)
        p->saved[stage] = (sl_time)nearbyint((double)p->saved[stage] * factor);
    return SL_OK;
}

static sl_status check(const sl_problem *p) {
    if (p->layers)
        return sl_error(SL_EINVAL,
                        "the stages of this pipeline are cut from layers: give stages and times_ms");
    if (p->placement == SL_BIDIRECTIONAL)
        return sl_error(SL_EINVAL, "a bidirectional pipeline takes even numbers of microbatches only");
    if (sl_pipelines_busiest(p) == 0)
        return sl_error(SL_EINVAL, "the ops of this pipeline take no time");
    return SL_OK;
}

/* The wanted number, or the maximum of the problem if that is less. */
static int max_microbatches(const sl_problem *p, int wanted) {
    int most = SL_MAX_OPS / (3 * p->stages * p->parts);
    most = most < SL_MAX_MICROBATCHES ? most : SL_MAX_MICROBATCHES;
    return wanted < most ? wanted : most;
}

static sl_status fill_kind(const sl_pipelines *p, const sl_problem *problem, double time, pipeline_kind *k) {
    SL_TRY(check(problem));
    SL_TRY(sl_problem_copy(problem, &k->problem));
    if (time > 0)
        SL_TRY(multiply(&k->problem, time / (double)sl_pipelines_busiest(problem)));
    if (sl_pipelines_busiest(&k->problem) == 0)
        return sl_error(SL_EINVAL, "a microbatch of %g ns is too short for a pipeline's ops", time);
    k->most = max_microbatches(problem, p->most);
    k->problem.microbatches = k->most;
    double total = sl_problem_total_ms(&k->problem);
    if (total > SL_MAX_TOTAL_MS)
        return sl_error(SL_EINVAL,
                        "ops and messages of %d microbatches take %g ms one after the other; at most %g",
                        k->most, total, (double)SL_MAX_TOTAL_MS);
    SL_TRY(sl_alloc(&k->planned, (size_t)k->most + 1, sizeof *k->planned));
    return sl_alloc(&k->time, (size_t)k->most + 1, sizeof *k->time);
}

/* ---- asking ---- */

static sl_status plan_makespan(sl_pipelines *p, pipeline_kind *k, int microbatches) {
    sl_problem problem = k->problem;
    sl_plan plan;
    problem.microbatches = microbatches;
    sl_status status = sl_plan_make(&problem, p->schedule, &plan);
    if (status == SL_OK)
        k->planned[microbatches] = plan.makespan;
    sl_plan_free(&plan);
    p->plans++;
    return status;
}

/* Heuristics may make a shorter plan for one microbatch more; the search needs times that never fall. */
static void keep(pipeline_kind *k, int microbatches, double time) {
    for (int m = microbatches - 1; m > 0; m--)
        if (k->time[m] > 0) {
            time = fmax(time, k->time[m]);
            break;
        }
    for (int m = microbatches + 1; m <= k->most; m++)
        if (k->time[m] > 0) {
            time = fmin(time, k->time[m]);
            break;
        }
    k->time[microbatches] = time;
}

/* The form of sl_replica_curve. */
static sl_status time_of(void *pipelines, int replica, int microbatches, double *time) {
    sl_pipelines *p = pipelines;
    pipeline_kind *k = &p->kind[p->of[replica]];
    if (!(k->time[microbatches] > 0)) {
        sl_status status = plan_makespan(p, k, microbatches);
        if (status != SL_OK && status != SL_ENONE)
            return status;
        keep(k, microbatches, status == SL_OK ? (double)k->planned[microbatches] : INFINITY);
    }
    *time = k->time[microbatches];
    return SL_OK;
}

static sl_status begin_kind(sl_pipelines *p, const sl_problem *problem, double time, pipeline_kind *k) {
    SL_TRY(fill_kind(p, problem, time, k));
    SL_TRY(plan_makespan(p, k, 1)); /* not even one fits: the planner's error has the reason */
    keep(k, 1, (double)k->planned[1]);
    return SL_OK;
}

static sl_status add_kind(sl_pipelines *p, const sl_problem *problem, double time) {
    SL_TRY(sl_grow(&p->kind, &p->kind_room, p->kinds + 1, sizeof *p->kind));
    pipeline_kind *k = &p->kind[p->kinds];
    *k = (pipeline_kind){.source = problem, .asked = time};
    sl_status status = begin_kind(p, problem, time, k);
    if (status == SL_OK)
        p->kinds++;
    else
        free_kind(k);
    return status;
}

sl_status sl_pipelines_add(sl_pipelines *p, const sl_problem *problem, double time) {
    size_t same = 0;
    SL_TRY(sl_grow(&p->of, &p->replica_room, p->replicas + 1, sizeof *p->of));
    while (same < p->kinds && (p->kind[same].source != problem || p->kind[same].asked != time))
        same++;
    if (same == p->kinds)
        SL_TRY(add_kind(p, problem, time));
    p->of[p->replicas++] = (int)same;
    return SL_OK;
}

/* ---- dividing ---- */

/* The formula's suggestion: the time of the busiest rank, and a fill of ranks - 1. */
static sl_status suggest(const sl_pipelines *p, int microbatches, int *guess) {
    sl_replica_rate *replica;
    double makespan;
    SL_TRY(sl_alloc(&replica, p->replicas, sizeof *replica));
    for (size_t i = 0; i < p->replicas; i++) {
        const sl_problem *problem = &p->kind[p->of[i]].problem;
        replica[i] = (sl_replica_rate){.time = fmax(1, (double)sl_pipelines_busiest(problem)),
                                       .fill = problem->ranks - 1};
    }
    sl_status status = sl_balance(replica, (int)p->replicas, microbatches, guess, &makespan);
    sl_free(replica);
    return status;
}

/* Limits, including the maximum of each problem. */
static void limit_all(const sl_pipelines *p, const int *limit, int *limits) {
    for (size_t i = 0; i < p->replicas; i++) {
        int most = p->kind[p->of[i]].most;
        limits[i] = limit ? limit[i] : 0;
        if (most < p->most && (limits[i] == 0 || limits[i] > most))
            limits[i] = most;
    }
}

static sl_status divide(sl_pipelines *p, int microbatches, const int *limits, int *guess, int *split) {
    double makespan;
    SL_TRY(suggest(p, microbatches, guess));
    return sl_balance_curve(
        &(sl_replica_curve){.time = time_of, .context = p, .limit = limits, .guess = guess}, (int)p->replicas,
        microbatches, split, &makespan);
}

sl_status sl_pipelines_balance(sl_pipelines *p, int microbatches, const int *limit, int *split,
                               sl_time *time) {
    int *scratch; /* limits, then the guess */
    SL_TRY(sl_alloc(&scratch, 2 * p->replicas, sizeof *scratch));
    limit_all(p, limit, scratch);
    sl_status status = divide(p, microbatches, scratch, scratch + p->replicas, split);
    for (size_t i = 0; i < p->replicas && status == SL_OK; i++)
        time[i] = p->kind[p->of[i]].planned[split[i]];
    sl_free(scratch);
    return status;
}

sl_status sl_pipelines_planned(sl_pipelines *p, int replica, int microbatches, sl_time *time) {
    const pipeline_kind *k = &p->kind[p->of[replica]];
    double ignored;
    if (microbatches > k->most)
        return sl_error(SL_ENONE, "a problem has at most %d microbatches, not %d", k->most, microbatches);
    SL_TRY(time_of(p, replica, microbatches, &ignored));
    *time = k->planned[microbatches];
    return *time > 0 ? SL_OK
                     : sl_error(SL_ENONE, "the memory of replica %d does not take %d microbatches", replica,
                                microbatches);
}

int sl_pipelines_plans(const sl_pipelines *pipelines) {
    return pipelines->plans;
}
