/* The search behind `auto` and `optimal`: starting orders from families and portfolio, annealing on every
 * processor, the exact solver at the end; whatever proves the plan first ends it. */
#include "base/clock.h"
#include "base/memory.h"
#include "plan/bound/bound.h"
#include "plan/exact/exact.h"
#include "plan/family/family.h"
#include "plan/search/cut.h"
#include "plan/search/improve.h"
#include "plan/search/measure.h"
#include "plan/search/plan.h"
#include "plan/search/portfolio.h"
#include "plan/search/regroup.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_THREADS 8
#define MOST_STARTS 24

typedef struct start {
    sl_order order;
    sl_time makespan;
    double memory; /* of the rank that needs most */
    const char *name;
} start;

typedef struct search {
    const sl_problem *problem;
    sl_problem wide; /* the same with the room that device and host have together as its limit */
    const sl_plan_options *options;
    sl_relaxation relaxation;
    sl_time bound, begin, deadline;
    sl_time anneal_end;        /* what is left until the deadline belongs to the exact solver */
    start starts[MOST_STARTS]; /* shortest first */
    int start_count;
    int put_off;     /* laborious families that the time did not allow at the start */
    char tried[180]; /* what the families take */
} search;

static sl_time now(void) {
    return sl_clock_now(sl_clock_real());
}

/* Until `deadline`, unless whoever asked says stop. */
static sl_limit until(const search *s, sl_time deadline) {
    return (sl_limit){deadline, s->options->stop};
}

static int is_over(const search *s, sl_time deadline) {
    const sl_limit limit = until(s, deadline);
    return sl_limit_is_over(&limit);
}

/* ---- starting orders ---- */

static int better(const start *a, const start *b) {
    return a->makespan != b->makespan ? a->makespan < b->makespan : a->memory < b->memory;
}

/* Takes over `order`: into its place by makespan and memory, or away when it passes the limit or is beyond
 * the last. */
static sl_status add_start(search *s, sl_order *order, const char *name) {
    start added = {.order = *order, .name = name};
    sl_status status = sl_measure(s->problem, order, &added.makespan, &added.memory);
    int i = s->start_count;
    if (status != SL_OK || added.makespan == SL_TIME_NEVER) {
        sl_order_free(order);
        return status == SL_ENOMEM ? status : SL_OK;
    }
    if (i == MOST_STARTS) /* the longest makes room, or is this one */
        sl_order_free(&s->starts[i = --s->start_count].order);
    for (; i > 0 && better(&added, &s->starts[i - 1]); i--)
        s->starts[i] = s->starts[i - 1];
    s->starts[i] = added;
    s->start_count++;
    size_t used = strlen(s->tried);
    if (strcmp(name, "optimal") != 0)
        snprintf(s->tried + used, sizeof s->tried - used, "%s%s %.6g", used ? ", " : "", name,
                 sl_to_ms(added.makespan));
    return SL_OK;
}

static int proven(const search *s) {
    return s->start_count > 0 && s->starts[0].makespan <= s->bound;
}

/* What a laborious family takes: some 26 schedules of about 150 ns an op. */
static double labour(const search *s) {
    const sl_problem *p = s->problem;
    return 26 * 150.0 * 3 * p->stages * (double)p->microbatches * p->parts;
}

static sl_status add_family(search *s, const sl_family *family) {
    sl_order order;
    sl_status status = sl_family_build(family, s->problem, &order);
    if (status == SL_OK)
        return add_start(s, &order, family->name);
    return status == SL_ENOMEM ? status : SL_OK;
}

/* Families; the laborious ones only where nothing fits, or for a tenth of the time where nothing is proven.
 */
static sl_status add_families(search *s) {
    for (const sl_family *family = sl_families; family->name; family++) {
        int laborious = (family->placements & SL_LABORIOUS) != 0;
        if (!sl_family_fits(family, s->problem) || (laborious && proven(s)))
            continue;
        if (laborious && s->start_count > 0 &&
            (10 * labour(s) > (double)(s->deadline - now()) || is_over(s, s->deadline)))
            s->put_off = 1;
        else
            SL_TRY(add_family(s, family));
    }
    return SL_OK;
}

/* What was put off, when the search has not proven its plan: no plan is worse than a family's, if that costs
 * no more than 20 ms beyond the limit. */
static sl_status add_rest(search *s) {
    for (const sl_family *family = sl_families; family->name && s->put_off; family++)
        if (family->placements & SL_LABORIOUS && sl_family_fits(family, s->problem) && !proven(s) &&
            labour(s) < 20.0 * SL_MS && !is_over(s, SL_TIME_NEVER))
            SL_TRY(add_family(s, family));
    return SL_OK;
}

static sl_status add_portfolio(search *s) {
    for (int i = 0; i < SL_PORTFOLIO && !proven(s); i++) {
        sl_order order;
        if (s->start_count > 0 && is_over(s, s->deadline))
            return SL_OK;
        if (s->start_count > 0 && i >= SL_PORTFOLIO - 6 && s->problem->stages == s->problem->ranks)
            break; /* caps on what is in flight help where ranks hold several stages */
        sl_status status = sl_portfolio_order(&s->relaxation, i, &order);
        if (status == SL_OK)
            SL_TRY(add_start(s, &order, "optimal"));
        else if (status == SL_ENOMEM)
            return status;
    }
    sl_order serial;
    if (s->start_count > 0)
        return SL_OK;
    SL_TRY(sl_serial_order(s->problem, &serial));
    return add_start(s, &serial, "optimal");
}

/* ---- annealing on several threads ---- */

typedef struct worker {
    const search *search;
    int index, threads;
    sl_order best;
    sl_time makespan;
    int improved;
    sl_status status;
    char error[512];
} worker;

/* Chain after chain, each longer than the one before; the first from this worker's share of the starting
 * orders, the later ones from its best. Everything but the last chain's end is a function of the seed. */
static sl_status run_chains(worker *w) {
    static const double heats[] = {1, 3, 0.3, 2};
    const search *s = w->search;
    int64_t moves = 400;
    for (int chain = 0; w->makespan > s->bound && !is_over(s, s->anneal_end); chain++) {
        int from = chain * w->threads + w->index;
        const sl_order *begin = from < s->start_count && chain < 3 ? &s->starts[from].order : &w->best;
        sl_order order;
        sl_improve_result result;
        SL_TRY(sl_order_copy(begin, &order));
        sl_improve_options options = {.until = until(s, s->anneal_end),
                                      .moves = moves,
                                      .heat = chain == 0 ? 0.3 : heats[(chain + w->index) % 4],
                                      .target = s->bound,
                                      .seed = s->options->seed * 1000003 + (uint64_t)(chain * 64 + w->index)};
        sl_status status = sl_improve(s->problem, &options, &order, &result);
        if (status == SL_OK)
            status = sl_regroup(s->problem, until(s, s->anneal_end), &order, &result.makespan);
        if (status == SL_OK && result.makespan < w->makespan) {
            sl_order worse = w->best;
            w->best = order;
            w->makespan = result.makespan;
            w->improved = 1;
            order = worse;
        }
        sl_order_free(&order);
        SL_TRY(status);
        if (result.moves == 0 && chain >= 3)
            return SL_OK; /* nothing can be moved */
        moves = moves < 1000000 ? moves * 4 : moves;
    }
    return SL_OK;
}

static void *work(void *argument) {
    worker *w = argument;
    w->status = run_chains(w);
    if (w->status != SL_OK)
        snprintf(w->error, sizeof w->error, "%s", sl_error_text());
    return NULL;
}

static int thread_count(const sl_plan_options *options) {
    long count = options->threads > 0 ? options->threads : sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > MOST_THREADS ? MOST_THREADS : (int)count;
}

/* Runs the workers; where a thread cannot be had, its work is done here. */
static void run_workers(worker *workers, int count) {
    pthread_t thread[MOST_THREADS];
    int started[MOST_THREADS] = {0};
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

static sl_status collect(search *s, worker *workers, int count) {
    sl_status status = SL_OK;
    for (int i = 0; i < count && status == SL_OK; i++)
        if ((status = workers[i].status) != SL_OK)
            sl_error(status, "%s", workers[i].error);
    for (int i = 0; i < count; i++) {
        if (status == SL_OK && workers[i].improved && workers[i].makespan < s->starts[0].makespan) {
            sl_order_free(&s->starts[0].order);
            s->starts[0] =
                (start){.order = workers[i].best, .makespan = workers[i].makespan, .name = "optimal"};
        } else {
            sl_order_free(&workers[i].best);
        }
    }
    return status;
}

static sl_status anneal(search *s) {
    worker workers[MOST_THREADS] = {0};
    int count = thread_count(s->options);
    sl_status status = SL_OK;
    for (int i = 0; i < count && status == SL_OK; i++) {
        workers[i] = (worker){.search = s, .index = i, .threads = count, .makespan = s->starts[0].makespan};
        status = sl_order_copy(&s->starts[0].order, &workers[i].best);
    }
    if (status == SL_OK)
        run_workers(workers, count);
    sl_status failed = status;
    status = collect(s, workers, count);
    return failed != SL_OK ? failed : status;
}

/* ---- the exact solver ---- */

/* The solver gets the more of the time the smaller the problem is; beyond its reach nothing. */
static sl_time share_of_annealing(const search *s) {
    int nodes = s->relaxation.nodes;
    double share = nodes <= 600 ? 0.2 : nodes <= 2000 ? 0.4 : nodes <= 20000 ? 0.6 : 1;
    if (!s->options->exact || share == 1 || s->options->time_limit < 0.1 || s->problem->parts > 1 ||
        sl_problem_offloads(s->problem) || !sl_exact_available())
        return s->deadline;
    return s->begin + (sl_time)(share * (double)(s->deadline - s->begin));
}

/* Its failure is no failure of the search: the plan stands, and says nothing of a proof. But a solver of
 * another version is an error of the installation, which would stay unseen. */
static sl_status solve_exactly(search *s) {
    sl_exact_result result;
    double seconds = sl_to_ms(s->deadline - now()) / 1e3;
    if (proven(s) || s->anneal_end == s->deadline || seconds < 0.03 || is_over(s, s->deadline))
        return SL_OK;
    sl_status status = sl_exact_solve(s->problem, &s->starts[0].order, seconds, s->options->threads,
                                      s->options->seed, s->bound, s->options->stop, &result);
    if (status != SL_OK)
        return status == SL_ENOMEM || status == SL_EPEER ? status : SL_OK;
    s->bound = result.bound > s->bound ? result.bound : s->bound;
    if (!result.found)
        return SL_OK;
    return add_start(s, &result.order, "optimal");
}

/* ---- the whole ---- */

static sl_status refuse(const search *s) {
    const sl_relaxation *r = &s->relaxation;
    if (r->impossible)
        return sl_error(
            SL_ENONE,
            "no schedule fits into the memory limit: rank %d needs at least %g, over its limit of %g",
            r->impossible_rank, r->impossible_memory, s->problem->limit[r->impossible_rank]);
    return sl_error(SL_ENONE, "no schedule was found that fits into the memory limit");
}

/* Starting orders for problems with host memory: what fits is measured with the moves it needs. */
static sl_status widen(search *s) {
    SL_TRY(sl_problem_copy(s->problem, &s->wide));
    for (int rank = 0; rank < s->problem->ranks && sl_problem_offloads(s->problem); rank++)
        s->wide.limit[rank] = sl_problem_room(s->problem, rank);
    sl_free(s->wide.host_limit);
    s->wide.host_limit = NULL;
    return SL_OK;
}

/* The deep bound takes longer than the families, which often meet the other one. */
static sl_status search_orders(search *s) {
    SL_TRY(sl_lower_bound(s->problem, 0, &s->bound));
    SL_TRY(add_families(s));
    if (proven(s))
        return SL_OK;
    sl_time deep;
    SL_TRY(widen(s));
    SL_TRY(sl_relaxation_make(&s->wide, 1, &s->relaxation));
    SL_TRY(sl_relaxation_bound(&s->relaxation, &deep));
    s->bound = deep > s->bound ? deep : s->bound;
    if (!proven(s))
        SL_TRY(add_portfolio(s));
    if (s->start_count == 0)
        return refuse(s);
    s->anneal_end = share_of_annealing(s);
    if (!proven(s) && !is_over(s, s->anneal_end))
        SL_TRY(anneal(s));
    SL_TRY(solve_exactly(s));
    return add_rest(s);
}

static sl_status finish(search *s, sl_plan *plan) {
    const char *name = strcmp(s->options->schedule, "auto") == 0 ? s->starts[0].name : s->options->schedule;
    SL_TRY(sl_plan_of_order(s->problem, &s->starts[0].order, name, plan));
    snprintf(plan->why, sizeof plan->why, "%s%s%s%s",
             s->starts[0].makespan > s->bound ? "the shortest found"
             : s->problem->layers             ? "nothing is shorter with this cut"
                                              : "nothing can be shorter",
             s->tried[0] ? "; tried " : "", s->tried, s->tried[0] ? " ms" : "");
    if (!s->problem->layers) /* with layers it is the bound of this cut only */
        plan->bound = s->bound > plan->bound ? s->bound : plan->bound;
    plan->solve = now() - s->begin;
    return SL_OK;
}

sl_status sl_plan_search(const sl_problem *problem, const sl_plan_options *options, sl_plan *plan) {
    *plan = (sl_plan){0};
    if (strcmp(options->schedule, "auto") != 0 && strcmp(options->schedule, "optimal") != 0)
        return sl_plan_make(problem, options->schedule, plan);
    search s = {.problem = problem, .options = options, .begin = now()};
    s.deadline = s.begin + sl_from_ms(options->time_limit * 1e3);
    sl_status status = search_orders(&s);
    if (status == SL_OK)
        status = finish(&s, plan);
    for (int i = 0; i < s.start_count; i++)
        sl_order_free(&s.starts[i].order);
    sl_relaxation_free(&s.relaxation);
    sl_problem_free(&s.wide);
    return status;
}

sl_status sl_plan_problem(sl_problem *problem, const sl_plan_options *options, sl_plan *plan) {
    *plan = (sl_plan){0};
    const sl_limit half = {now() + sl_from_ms(options->time_limit * 500), options->stop};
    SL_TRY(sl_cut_choose(problem, half));
    SL_TRY(sl_plan_search(problem, options, plan));
    return sl_plan_prove(problem, plan);
}
