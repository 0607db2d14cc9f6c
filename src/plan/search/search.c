/* The search of `auto` and `optimal`: starting orders from families and portfolio, annealing on every
 * processor, and finally the exact solver; it ends when the plan is proven optimal. */
#include "base/clock.h"
#include "plan/exact/exact.h"
#include "plan/pipeline/layers.h"
#include "plan/search/caps.h"
#include "plan/search/chains.h"
#include "plan/search/layer_cut.h"
#include "plan/search/plan.h"
#include "plan/timing/message_order.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS 8

typedef struct order_search {
    const sl_problem *problem;
    const sl_plan_options *options;
    sl_time begin, deadline;
    sl_time anneal_end; /* the rest until the deadline is for the exact solver */
    sl_starts starts;
    int put_off; /* laborious families skipped at the start for lack of time */
} order_search;

/* Until `deadline`, or until the caller's stop flag. */
static sl_limit until(const order_search *s, sl_time deadline) {
    return (sl_limit){deadline, s->options->stop};
}

static int is_over(const order_search *s, sl_time deadline) {
    const sl_limit limit = until(s, deadline);
    return sl_limit_is_over(&limit);
}

/* ---- starting orders ---- */

/* Time of a laborious family: about 150 ns per op of each schedule. */
static double labour(const order_search *s, const sl_family *family) {
    const sl_problem *p = s->problem;
    return family->tries * 150.0 * 3 * p->stages * (double)p->microbatches * p->parts;
}

/* Families; the laborious ones only if nothing fits, or for a tenth of the time if nothing is proven. */
static sl_status add_families(order_search *s) {
    for (const sl_family *family = sl_families; family->name; family++) {
        int laborious = (family->placements & SL_LABORIOUS) != 0;
        if (!sl_family_fits(family, s->problem) || (laborious && sl_starts_proven(&s->starts)))
            continue;
        if (laborious && s->starts.count > 0 &&
            (10 * labour(s, family) > (double)(s->deadline - sl_now()) || is_over(s, s->deadline)))
            s->put_off = 1;
        else
            SL_TRY(sl_starts_add_family(&s->starts, family));
    }
    return SL_OK;
}

/* Tries the skipped families if the search has not proven its plan: no plan is worse than a family's, unless
 * this takes more than 20 ms beyond the limit. */
static sl_status add_rest(order_search *s) {
    for (const sl_family *family = sl_families; family->name && s->put_off; family++)
        if (family->placements & SL_LABORIOUS && sl_family_fits(family, s->problem) &&
            !sl_starts_proven(&s->starts) && labour(s, family) < 20.0 * SL_MS && !is_over(s, SL_TIME_NEVER))
            SL_TRY(sl_starts_add_family(&s->starts, family));
    return SL_OK;
}

/* ---- annealing on several threads ---- */

typedef struct worker {
    sl_chains chains;
    sl_status status;
    char error[512];
} worker;

static void *work(void *argument) {
    worker *w = argument;
    w->status = sl_chains_run(&w->chains);
    if (w->status != SL_OK)
        snprintf(w->error, sizeof w->error, "%s", sl_error_text());
    return NULL;
}

static int thread_count(const sl_plan_options *options) {
    long count = options->threads > 0 ? options->threads : sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : (int)count;
}

/* Runs the workers; if a thread cannot be created, its work is done here. */
static void run_workers(worker *workers, int count) {
    pthread_t thread[MAX_THREADS];
    int started[MAX_THREADS] = {0};
    for (int i = 1; i < count; i++)
        started[i] = pthread_create(&thread[i], NULL, work, &workers[i]) == 0;
    work(&workers[0]);
    for (int i = 1; i < count; i++) {
        if (started[i])
            pthread_join(thread[i], NULL);
        else
            work(&workers[i]);
    }
}

static sl_status collect(order_search *s, worker *workers, int count) {
    sl_status status = SL_OK;
    for (int i = 0; i < count && status == SL_OK; i++)
        if ((status = workers[i].status) != SL_OK)
            sl_error(status, "%s", workers[i].error);
    for (int i = 0; i < count; i++) {
        if (status == SL_OK && workers[i].chains.improved)
            status = sl_starts_add(&s->starts, &workers[i].chains.best, NULL);
        else
            sl_order_free(&workers[i].chains.best);
    }
    return status;
}

/* A function of the seed and of the chains that end in time; the later ones cool until the time is over. */
static sl_status anneal(order_search *s) {
    worker workers[MAX_THREADS] = {0};
    int count = thread_count(s->options);
    for (int i = 0; i < count; i++)
        workers[i].chains = (sl_chains){.starts = &s->starts,
                                        .index = i,
                                        .threads = count,
                                        .until = until(s, s->anneal_end),
                                        .work = INT64_MAX,
                                        .seed = s->options->seed,
                                        .bound = s->starts.bound};
    run_workers(workers, count);
    return collect(s, workers, count);
}

/* ---- the exact solver ---- */

/* The smaller the problem, the larger the solver's share of the time; nothing for problems beyond its reach,
 * or with another objective than its own, the makespan. */
static sl_time share_of_annealing(const order_search *s) {
    int nodes = s->starts.relaxation.nodes;
    double share = nodes <= 600 ? 0.2 : nodes <= 2000 ? 0.4 : nodes <= 20000 ? 0.6 : 1;
    if (!s->options->exact || s->problem->objective != SL_MAKESPAN || share == 1 ||
        s->options->time_limit < 0.1 || s->problem->parts > 1 || sl_problem_offloads(s->problem) ||
        !sl_exact_available())
        return s->deadline;
    return s->begin + (sl_time)(share * (double)(s->deadline - s->begin));
}

/* Its failure does not fail the search: the plan is kept without its proof. But a solver of another version
 * is an error of the installation, which would otherwise stay unnoticed. */
static sl_status solve_exactly(order_search *s) {
    sl_exact_result result;
    double seconds = sl_to_ms(s->deadline - sl_now()) / 1e3;
    if (sl_starts_proven(&s->starts) || s->anneal_end == s->deadline || seconds < 0.03 ||
        is_over(s, s->deadline))
        return SL_OK;
    sl_status status = sl_exact_solve(s->problem, &s->starts.start[0].order, seconds, s->options->threads,
                                      s->options->seed, s->starts.bound, s->options->stop, &result);
    if (status != SL_OK)
        return status == SL_ENOMEM || status == SL_EPEER ? status : SL_OK;
    s->starts.bound = result.bound > s->starts.bound ? result.bound : s->starts.bound;
    if (!result.found)
        return SL_OK;
    return sl_starts_add(&s->starts, &result.order, NULL);
}

/* ---- the search ---- */

/* The deep bound takes longer than the families, which often reach the shallow one. */
static sl_status search_orders(order_search *s) {
    const sl_limit limit = until(s, s->deadline);
    int64_t work = INT64_MAX;
    SL_TRY(sl_starts_open(s->problem, &s->starts));
    SL_TRY(add_families(s));
    if (sl_starts_proven(&s->starts))
        return SL_OK;
    SL_TRY(sl_starts_relax(&s->starts, 1));
    SL_TRY(sl_starts_add_portfolio(&s->starts, &limit, &work));
    const sl_limit tenth = until(s, sl_sooner(s->deadline, sl_now() + (s->deadline - s->begin) / 10));
    SL_TRY(sl_caps_search(&s->starts, &tenth, &work));
    s->anneal_end = share_of_annealing(s);
    if (!sl_starts_proven(&s->starts) && !is_over(s, s->anneal_end))
        SL_TRY(anneal(s));
    SL_TRY(solve_exactly(s));
    return add_rest(s);
}

static sl_status finish(order_search *s, sl_plan *plan) {
    sl_start *best = &s->starts.start[0];
    int family = best->name && strcmp(s->options->schedule, "auto") == 0;
    SL_TRY(sl_messages_plan(s->problem, SL_MESSAGES_THOROUGHLY, &best->order));
    SL_TRY(sl_plan_of_order(s->problem, &best->order, family ? best->name : "optimal", plan));
    snprintf(plan->why, sizeof plan->why, "%s%s%s%s",
             plan->value > s->starts.bound ? "the shortest found"
             : s->problem->layers          ? "nothing is shorter with this cut"
                                           : "nothing can be shorter",
             s->starts.tried[0] ? "; tried " : "", s->starts.tried, s->starts.tried[0] ? " ms" : "");
    if (!s->problem->layers) /* with layers, it would be the bound of this cut only */
        plan->bound = s->starts.bound > plan->bound ? s->starts.bound : plan->bound;
    plan->solve = sl_now() - s->begin;
    return SL_OK;
}

sl_status sl_plan_search(const sl_problem *problem, const sl_plan_options *options, sl_plan *plan) {
    *plan = (sl_plan){0};
    if (strcmp(options->schedule, "auto") != 0 && strcmp(options->schedule, "optimal") != 0)
        return sl_plan_make(problem, options->schedule, plan);
    order_search s = {.problem = problem, .options = options, .begin = sl_now()};
    s.deadline = s.begin + sl_from_ms(options->time_limit * 1e3);
    sl_status status = search_orders(&s);
    SL_THEN(status, finish(&s, plan));
    sl_starts_free(&s.starts);
    return status;
}

/* ---- with a cut of layers ---- */

/* The plan for the cut at hand, then the cut that fits this plan's order better. */
static sl_status plan_cut(sl_problem *p, const sl_plan_options *options, double seconds, sl_plan *plan) {
    sl_plan_options shorter = *options;
    const sl_limit limit = {sl_now() + sl_from_ms(seconds * 1e3), options->stop};
    sl_time value;
    shorter.time_limit = seconds / 2;
    SL_TRY(sl_plan_search(p, &shorter, plan));
    SL_TRY(sl_cut_refine(p, &plan->order, limit, &value));
    if (value >= plan->value)
        return SL_OK;
    sl_plan better;
    sl_status status = sl_plan_of_order(p, &plan->order, plan->schedule, &better);
    if (status == SL_OK) {
        snprintf(better.why, sizeof better.why, "the shortest found, with a cut for its order");
        sl_plan_free(plan);
        *plan = better;
    } else
        sl_plan_free(&better);
    return status;
}

/* The best of the plans for the best cuts, each with its share of the time; then the rest for the best one.
 */
static sl_status plan_cuts(sl_problem *p, const sl_plan_options *options, sl_layer_cuts *cuts,
                           sl_plan *plan) {
    int best = -1;
    double share = options->time_limit / 3;
    for (int i = 0; i <= cuts->count; i++) {
        int last = i == cuts->count;
        sl_layer_cut *cut = &cuts->cut[last ? best : i];
        sl_plan other;
        sl_cut_take(p, cut);
        sl_status status = plan_cut(p, options, last ? share : share / cuts->count, &other);
        if (status != SL_OK && status != SL_ENONE) {
            sl_plan_free(&other);
            return status;
        }
        if (status == SL_OK && (best < 0 || other.value < plan->value)) {
            sl_plan_free(plan);
            *plan = other;
            memcpy(cut->first, p->layers->first,
                   ((size_t)p->stages + 1) * sizeof *cut->first); /* as refined */
            memcpy(cut->again, p->recompute, (size_t)p->stages);
            best = last ? best : i;
        } else
            sl_plan_free(&other);
        if (best < 0 && i == cuts->count - 1)
            return sl_error(SL_ENONE, "no cut of the layers leaves a schedule within the memory limit");
    }
    sl_cut_take(p, &cuts->cut[best]);
    return SL_OK;
}

sl_status sl_plan_problem(sl_problem *problem, const sl_plan_options *options, sl_plan *plan) {
    *plan = (sl_plan){0};
    if (!problem->layers || problem->layers->letter) {
        SL_TRY(sl_plan_search(problem, options, plan));
        return sl_plan_prove(problem, plan);
    }
    sl_layer_cuts cuts;
    sl_time begin = sl_now();
    const sl_limit third = {begin + sl_from_ms(options->time_limit * 1e3 / 3), options->stop};
    sl_status status = sl_cuts_find(problem, third, &cuts);
    SL_THEN(status, plan_cuts(problem, options, &cuts, plan));
    sl_cuts_free(&cuts);
    SL_TRY(status);
    plan->solve = sl_now() - begin;
    return sl_plan_prove(problem, plan);
}
