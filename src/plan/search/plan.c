#include "plan/search/plan.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/suggest.h"
#include "plan/bound/bound.h"
#include "plan/family/family.h"
#include "plan/family/slack.h"
#include "plan/lower/receive_buffers.h"
#include "plan/pipeline/layers.h"
#include "plan/search/layer_cut.h"
#include "plan/timing/jitter.h"
#include "plan/timing/message_order.h"
#include "plan/timing/objective.h"
#include "plan/timing/replay.h"

#include <stdio.h>
#include <string.h>

static sl_time rank_work(const sl_problem *p, const sl_order *order, int rank) {
    sl_time work = 0;
    for (int i = 0; i < order->count[rank]; i++) {
        const sl_op *op = &order->ops[rank][i];
        if (op->paired)
            work += sl_problem_pair_time(p, op->stage, op[1].stage);
        else if (i == 0 || !op[-1].paired)
            work += sl_problem_op_time(p, op);
    }
    return work;
}

/* The makespan of the same order with the real or free links, in a given regime. */
static sl_status makespan_if(const sl_problem *p, const sl_program *program, int free_links, sl_regime regime,
                             sl_time *makespan) {
    sl_timeline timeline;
    sl_problem other = *p;
    if (free_links) {
        sl_link *links;
        SL_TRY(sl_alloc(&links, (size_t)p->ranks * (size_t)p->ranks, sizeof *links));
        other.link = links;
    }
    sl_status status = sl_replay(&other, program, regime, p->queue, &timeline);
    if (status == SL_OK)
        *makespan = sl_timeline_makespan(&timeline);
    sl_timeline_free(&timeline);
    if (free_links)
        sl_free(other.link);
    return status;
}

static sl_status measure_losses(const sl_problem *p, sl_plan *plan) {
    sl_time unhindered, decoupled = plan->makespan;
    SL_TRY(makespan_if(p, &plan->program, 1, SL_DECOUPLED, &unhindered));
    if (p->communication != SL_DECOUPLED)
        SL_TRY(makespan_if(p, &plan->program, 0, SL_DECOUPLED, &decoupled));
    plan->dependency_loss = decoupled - unhindered;
    plan->blocking_loss = plan->makespan - decoupled;
    return SL_OK;
}

static sl_status measure_memory(const sl_problem *p, sl_plan *plan) {
    SL_TRY(sl_alloc(&plan->peak_memory, (size_t)p->ranks, sizeof *plan->peak_memory));
    SL_TRY(sl_peak_memory(p, &plan->timeline, plan->peak_memory));
    SL_TRY(sl_alloc(&plan->peak_host, (size_t)p->ranks, sizeof *plan->peak_host));
    sl_peak_host(&plan->timeline, plan->peak_host);
    plan->memory_ok = 1;
    for (int rank = 0; rank < p->ranks; rank++) {
        plan->memory_ok &= !p->limit || plan->peak_memory[rank] <= p->limit[rank] * (1 + 1e-9);
        plan->peak_memory[rank] += sl_problem_fixed(p, rank);
    }
    return SL_OK;
}

/* If stages are cut from layers, another cut might be shorter, so the bound covers all cuts, unless a layout
 * gives the only one. */
static sl_status bound_of(const sl_problem *p, int deep, sl_time *bound) {
    return p->layers && !p->layers->letter ? sl_cut_bound(p, bound) : sl_lower_bound(p, deep, bound);
}

static sl_status check_buffers(const sl_problem *p, const sl_program *program) {
    sl_issuer *issuer;
    if (p->communication != SL_FIFO || p->receive_buffers == 0)
        return SL_OK;
    SL_TRY(sl_issuer_open(program, &issuer));
    sl_status status = sl_issuer_run(issuer);
    SL_THEN(status,
            sl_receive_buffers_check(&(sl_cells){.problem = p, .program = program, .issuer = issuer}));
    sl_issuer_close(issuer);
    return status;
}

/* Times a plan whose order is set. */
static sl_status run_through(const sl_problem *p, sl_plan *plan) {
    SL_TRY(sl_lower(p, &plan->order, &plan->program));
    SL_TRY(check_buffers(p, &plan->program));
    SL_TRY(sl_replay(p, &plan->program, p->communication, p->queue, &plan->timeline));
    SL_TRY(measure_memory(p, plan));
    SL_TRY(sl_alloc(&plan->warmup, (size_t)p->ranks, sizeof *plan->warmup));
    sl_order_warmup(&plan->order, plan->warmup);
    plan->objective = p->objective;
    plan->makespan = sl_timeline_makespan(&plan->timeline);
    plan->span = sl_timeline_span(&plan->timeline);
    SL_TRY(sl_objective_value(p, &plan->program, &plan->timeline, &plan->value));
    plan->period = p->objective == SL_PERIOD ? plan->value : -1;
    for (int rank = 0; rank < p->ranks; rank++) {
        sl_time work = rank_work(p, &plan->order, rank);
        plan->ideal = work > plan->ideal ? work : plan->ideal;
    }
    return SL_OK;
}

/* Evaluates the plan. */
static sl_status evaluate(const sl_problem *p, sl_plan *plan) {
    SL_TRY(bound_of(p, 0, &plan->bound));
    return measure_losses(p, plan);
}

static void name_plan(sl_plan *plan, const char *name) {
    size_t length = strnlen(name, sizeof plan->schedule - 1);
    memcpy(plan->schedule, name, length);
    plan->schedule[length] = 0;
}

sl_status sl_plan_of_order(const sl_problem *problem, const sl_order *order, const char *name,
                           sl_plan *plan) {
    sl_time begin = sl_now();
    *plan = (sl_plan){0};
    name_plan(plan, name);
    SL_TRY(sl_order_copy(order, &plan->order));
    SL_TRY(run_through(problem, plan));
    SL_TRY(evaluate(problem, plan));
    plan->solve = sl_now() - begin;
    return SL_OK;
}

void sl_plan_free(sl_plan *plan) {
    sl_order_free(&plan->order);
    sl_program_free(&plan->program);
    sl_timeline_free(&plan->timeline);
    SL_FREE(plan->peak_memory, plan->peak_host, plan->warmup, plan->jitter);
    if (plan->attribution)
        SL_FREE(plan->attribution->link, plan->attribution->op, plan->attribution);
    *plan = (sl_plan){0};
}

sl_status sl_plan_prove(const sl_problem *problem, sl_plan *plan) {
    sl_time bound;
    if (plan->value <= plan->bound)
        return SL_OK;
    SL_TRY(bound_of(problem, 1, &bound));
    plan->bound = bound > plan->bound ? bound : plan->bound;
    return SL_OK;
}

sl_status sl_plan_add_jitter(const sl_problem *problem, sl_plan *plan, int draws, uint64_t seed) {
    if (!plan->jitter)
        SL_TRY(sl_alloc(&plan->jitter, 1, sizeof *plan->jitter));
    return sl_jitter_replay(problem, &plan->program, draws, seed, plan->jitter);
}

double sl_plan_gap(const sl_plan *plan) {
    return plan->bound > 0 ? (double)(plan->value - plan->bound) / (double)plan->bound : 0;
}

sl_time sl_plan_tolerance(const sl_problem *p, const sl_plan *plan, int link) {
    int full_backward = 0;
    for (int i = 0; i < plan->order.count[link]; i++)
        full_backward |= plan->order.ops[link][i].kind == SL_B;
    return sl_slack_tolerance(p, plan->warmup, link, full_backward);
}

static sl_status make_family(const sl_problem *p, const sl_family *family, sl_plan *plan) {
    name_plan(plan, family->name);
    SL_TRY(sl_family_build(family, p, &plan->order));
    SL_TRY(sl_messages_plan(p, SL_MESSAGES_THOROUGHLY, &plan->order));
    SL_TRY(run_through(p, plan));
    if (plan->memory_ok)
        return SL_OK;
    for (int rank = 0; rank < p->ranks; rank++) {
        double fixed = sl_problem_fixed(p, rank), limit = p->limit[rank];
        if (plan->peak_memory[rank] - fixed > limit * (1 + 1e-9))
            return sl_error(SL_ENONE, "%s needs memory of %g on rank %d, over its limit of %g", family->name,
                            plan->peak_memory[rank], rank, limit + fixed);
    }
    return SL_OK;
}

static double max_memory(const sl_problem *p, const sl_plan *plan) {
    double most = 0;
    for (int rank = 0; rank < p->ranks; rank++)
        most = plan->peak_memory[rank] > most ? plan->peak_memory[rank] : most;
    return most;
}

static int is_better(const sl_problem *p, const sl_plan *a, const sl_plan *b) {
    if (!b->schedule[0] || a->value != b->value)
        return !b->schedule[0] || a->value < b->value;
    return max_memory(p, a) < max_memory(p, b);
}

/* Whether the plan is proven optimal, so that laborious families can be skipped. */
static sl_status is_proven(const sl_problem *p, const sl_plan *plan, sl_time *bound, int *proven) {
    *proven = 0;
    if (!plan->schedule[0])
        return SL_OK;
    if (*bound < 0)
        SL_TRY(bound_of(p, 0, bound));
    *proven = plan->value <= *bound;
    return SL_OK;
}

static sl_status make_best(const sl_problem *p, sl_plan *plan) {
    int fits = 0, proven = 0;
    sl_time bound = -1;
    for (const sl_family *family = sl_families; family->name; family++) {
        sl_plan candidate = {0};
        if (!sl_family_fits(family, p))
            continue;
        if (family->placements & SL_LABORIOUS)
            SL_TRY(is_proven(p, plan, &bound, &proven));
        if (family->placements & SL_LABORIOUS && proven)
            continue;
        fits = 1;
        sl_status status = make_family(p, family, &candidate);
        if (status == SL_OK && is_better(p, &candidate, plan)) {
            sl_plan worse = *plan;
            *plan = candidate;
            candidate = worse;
        }
        sl_plan_free(&candidate);
        if (status != SL_OK && status != SL_ENONE)
            return status;
    }
    if (plan->schedule[0])
        return SL_OK;
    if (!fits)
        return sl_error(SL_ENONE, "no family plans for placement %s", sl_placement_name(p->placement));
    /* the last family of the table needs the least memory */
    return sl_error(SL_ENONE, "no schedule fits into the memory limit: %s", sl_error_text());
}

enum { MAX_FAMILIES = 64 };

static sl_status refuse_name(const char *schedule) {
    char known[512] = "auto, optimal";
    for (const sl_family *family = sl_families; family->name; family++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, ", %s", family->name);
    }
    const char *names[MAX_FAMILIES] = {"auto", "optimal"};
    for (int i = 0; sl_families[i].name && i < MAX_FAMILIES - 3; i++)
        names[i + 2] = sl_families[i].name;
    const char *near = sl_suggest(schedule, names);
    return sl_error(SL_EINVAL, "unknown schedule '%s'%s%s%s; known: %s", schedule,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", known);
}

static sl_status make(const sl_problem *problem, const char *schedule, sl_plan *plan) {
    const sl_family *family = sl_family_find(schedule);
    if (!family && strcmp(schedule, "auto") != 0)
        return refuse_name(schedule);
    return family ? make_family(problem, family, plan) : make_best(problem, plan);
}

sl_status sl_plan_make(const sl_problem *problem, const char *schedule, sl_plan *plan) {
    sl_time begin = sl_now();
    *plan = (sl_plan){0};
    if (strcmp(schedule, "optimal") == 0)
        return sl_plan_search(
            problem, &(sl_plan_options){.schedule = schedule, .time_limit = 1, .seed = 1, .threads = 1},
            plan);
    SL_TRY(make(problem, schedule, plan));
    SL_TRY(evaluate(problem, plan));
    plan->solve = sl_now() - begin;
    return SL_OK;
}

sl_status sl_plan_time(const sl_problem *problem, const char *schedule, sl_time *time) {
    sl_plan plan = {0};
    sl_status status = make(problem, schedule, &plan);
    *time = plan.value;
    sl_plan_free(&plan);
    return status;
}
