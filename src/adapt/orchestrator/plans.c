/* What each replica runs, and what it might run instead: the running order replayed on what was measured
 * lately, a new plan beside it (Adaptra, section 6). A new plan must gain more than a swap costs, and more
 * than the running order itself varied by; two swaps of a replica are at least `dwell` iterations apart,
 * whatever links do. */
#include "adapt/orchestrator/orchestrator_inside.h"
#include "adapt/orchestrator/queues.h"
#include "base/median.h"
#include "base/memory.h"
#include "plan/family/family.h"
#include "plan/search/replan.h"
#include "plan/timing/replay.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WORTH_A_REFIT 0.05 /* least share of an iteration that it must gain */
enum { LOOKS = 3 };        /* in the beginning, whether the plan is for what is measured */
#define OTHER_TIMES 0.25   /* times that are off by more than this were not what the plan was made for */

sl_shared_plan *sl_plans_keep(sl_shared_plan *plan) {
    if (plan)
        plan->references++;
    return plan;
}

void sl_plans_drop(sl_shared_plan **plan) {
    sl_shared_plan *p = *plan;
    *plan = NULL;
    if (!p || --p->references > 0)
        return;
    sl_plan_free(&p->plan);
    sl_free(p);
}

static sl_status share(sl_plan *plan, sl_shared_plan **shared) {
    SL_TRY(sl_alloc(shared, 1, sizeof **shared));
    (*shared)->references = 1;
    (*shared)->plan = *plan;
    *plan = (sl_plan){0};
    return SL_OK;
}

static void replace(sl_shared_plan **place, sl_shared_plan *with) {
    sl_shared_plan *kept = sl_plans_keep(with);
    sl_plans_drop(place);
    *place = kept;
}

/* Replicas that begin with the same plan share it. */
sl_status sl_plans_set(sl_orchestrator *o, const sl_plan *const *plan) {
    for (int r = 0; r < o->config.job.replicas; r++) {
        sl_side *side = &o->side[r];
        sl_plan own_plan;
        if (r > 0 && plan[r] == plan[r - 1]) {
            replace(&side->first, o->side[r - 1].first);
        } else {
            sl_problem own = *o->problem[r];
            sl_shared_plan *shared = NULL;
            own.microbatches = o->layout.split[r];
            sl_status status = sl_plan_of_order(&own, &plan[r]->order, plan[r]->schedule, &own_plan);
            if (status == SL_OK)
                status = share(&own_plan, &shared);
            sl_plan_free(&own_plan);
            SL_TRY(status);
            sl_plans_drop(&side->first);
            side->first = shared;
        }
        replace(&side->running, side->first);
    }
    return SL_OK;
}

sl_status sl_plans_open(sl_orchestrator *o, const sl_orchestrator_config *config) {
    for (int r = 0; r < o->config.job.replicas; r++) {
        o->side[r].last_swap = -config->dwell;
        o->side[r].cost = config->cost[SL_STRATEGY_SCHEDULE];
    }
    SL_TRY(sl_plans_set(o, config->first));
    for (int r = 0; r < o->config.job.replicas; r++)
        o->side[r].origin = sl_plans_keep(o->side[r].first);
    return SL_OK;
}

void sl_plans_close(sl_orchestrator *o) {
    for (int r = 0; o->side && r < o->config.job.replicas; r++) {
        sl_shared_plan **const all[] = {&o->side[r].origin, &o->side[r].first,     &o->side[r].running,
                                        &o->side[r].wanted, &o->side[r].candidate, &o->side[r].offered};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            sl_plans_drop(all[i]);
    }
}

/* ---- times ---- */

static sl_regime regime(const sl_orchestrator *o) {
    return o->layout.delegates ? SL_DECOUPLED : o->problem[0]->communication;
}

static sl_status time_in(const sl_shared_plan *plan, const sl_problem *problem, sl_regime way,
                         sl_time *time) {
    sl_timeline timeline;
    SL_TRY(sl_replay(problem, &plan->plan.program, way, problem->queue, &timeline));
    *time = sl_timeline_makespan(&timeline);
    sl_timeline_free(&timeline);
    return SL_OK;
}

sl_status sl_plans_time(const sl_orchestrator *o, const sl_shared_plan *plan, const sl_problem *problem,
                        sl_time *time) {
    return time_in(plan, problem, regime(o), time);
}

static sl_time newer(sl_time usual, sl_time recent) {
    sl_time low = usual < recent ? usual : recent, high = usual < recent ? recent : usual;
    return high - low > 300 * (SL_MS / 1000) && high - low > low / 2 ? recent : usual;
}

/* Medians of the window, but what has become half as long again or more, or that much shorter, in two of the
 * last three measurements is as there. */
static sl_status lately(sl_orchestrator *o, int replica, sl_problem *usual) {
    sl_problem recent;
    int count = sl_history_measured(&o->series, replica, o->config.hold);
    SL_TRY(sl_history_typical(&o->series, replica, count, usual));
    usual->communication = regime(o);
    if (count <= 3)
        return SL_OK;
    sl_status status = sl_history_typical(&o->series, replica, 3, &recent);
    if (status != SL_OK) {
        sl_problem_free(usual);
        return status;
    }
    for (int stage = 0; stage < usual->stages; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            usual->time[kind][stage] = newer(usual->time[kind][stage], recent.time[kind][stage]);
        usual->reduce[stage] = newer(usual->reduce[stage], recent.reduce[stage]);
    }
    for (int link = 0; link < usual->ranks * usual->ranks; link++) {
        usual->link[link].latency = newer(usual->link[link].latency, recent.link[link].latency);
        usual->link[link].transfer = newer(usual->link[link].transfer, recent.link[link].transfer);
    }
    sl_problem_free(&recent);
    return SL_OK;
}

/* Replicas of a simulation that are alike are asked once. */
static int as_before(const sl_orchestrator *o, int replica) {
    if (replica == 0)
        return 0;
    const sl_side *a = &o->side[replica], *b = &o->side[replica - 1];
    int rows[SL_ROWS],
        count = sl_history_collect(&o->series, o->series.since, o->series.rows, o->config.hold, 0, rows);
    for (int i = 0; i < count; i++) {
        sl_measured *const *m = o->series.row[rows[i] % SL_ROWS].replica;
        if (m[replica] != m[replica - 1] || !m[replica])
            return 0;
    }
    return count > 0 && a->running == b->running && a->first == b->first && a->last_swap == b->last_swap;
}

sl_status sl_plans_running(sl_orchestrator *o, sl_time *time) {
    *time = 0;
    for (int r = 0; r < o->config.job.replicas; r++) {
        sl_problem usual;
        sl_time takes = 0;
        if (as_before(o, r) || !sl_history_measured(&o->series, r, 1))
            continue;
        SL_TRY(lately(o, r, &usual));
        sl_status status = sl_plans_time(o, o->side[r].running, &usual, &takes);
        sl_problem_free(&usual);
        SL_TRY(status);
        *time = takes > *time ? takes : *time;
    }
    return SL_OK;
}

sl_status sl_plans_healthy(sl_orchestrator *o, sl_time *time) {
    *time = 0;
    for (int r = 0; r < o->config.job.replicas; r++) {
        sl_problem own = *sl_healthy_of(o, r);
        sl_time takes;
        if (r > 0 && sl_healthy_of(o, r) == sl_healthy_of(o, r - 1) &&
            o->side[r].origin == o->side[r - 1].origin)
            continue;
        own.microbatches = o->even[r];
        SL_TRY(time_in(o->side[r].origin, &own,
                       o->config.delegates ? SL_DECOUPLED : o->problem[0]->communication, &takes));
        *time = takes > *time ? takes : *time;
    }
    return SL_OK;
}

/* How much the running order's time varied over the window: a gain below that may be noise. */
static sl_status spread_of(sl_orchestrator *o, int replica, sl_time *spread) {
    int rows[SL_ROWS],
        count = sl_history_collect(&o->series, o->series.quiet, o->series.rows, o->config.hold, 0, rows);
    const sl_measured *last = NULL;
    sl_time least = SL_TIME_NEVER, most = 0, takes = 0;
    for (int i = 0; i < count; i++) {
        const sl_measured *m = sl_history_row(&o->series, rows[i])->replica[replica];
        if (!m || m->problem.microbatches != o->layout.split[replica])
            continue;
        if (m != last)
            SL_TRY(sl_plans_time(o, o->side[replica].running, &m->problem, &takes));
        last = m;
        least = takes < least ? takes : least;
        most = takes > most ? takes : most;
    }
    *spread = most > least ? most - least : 0;
    return SL_OK;
}

/* Each link's latency and transfer are `percentile` of the last measurements, at least the typical ones, so
 * that a small spike finds slack. */
static sl_status cautious(sl_orchestrator *o, int replica, const sl_problem *typical, sl_problem *problem) {
    sl_time latency[SL_ROWS], transfer[SL_ROWS];
    int rows[SL_ROWS],
        count = sl_history_collect(&o->series, o->series.since, o->series.rows, o->config.hold, 0, rows);
    SL_TRY(sl_problem_copy(typical, problem));
    for (int at = 0; at < problem->ranks * problem->ranks; at++) {
        sl_link *l = &problem->link[at];
        int found = 0;
        for (int i = 0; i < count; i++) {
            const sl_measured *m = sl_history_row(&o->series, rows[i])->replica[replica];
            if (!m)
                continue;
            latency[found] = m->problem.link[at].latency;
            transfer[found++] = m->problem.link[at].transfer;
        }
        sl_time late = sl_percentile(latency, found, problem->percentile);
        sl_time busy = sl_percentile(transfer, found, problem->percentile);
        l->latency = late > l->latency ? late : l->latency;
        l->transfer = busy > l->transfer ? busy : l->transfer;
    }
    return SL_OK;
}

/* ---- new plans ---- */

/* What a swap gains must pay its cost back within the iterations that it lasts at least, and be worth it. */
static int pays(const sl_orchestrator *o, const sl_side *side, sl_time running, sl_time candidate) {
    sl_time gain = running - candidate;
    return (double)gain > o->config.gain * (double)running && gain * o->config.dwell > side->cost;
}

/* A rank map or split that is new has no order to begin with. */
static sl_status new_plan(const sl_orchestrator *o, const sl_side *side, const sl_problem *problem,
                          sl_plan *plan) {
    if (!(o->config.can & 1u << SL_STRATEGY_SCHEDULE)) /* only the job's own kind of schedule */
        return sl_plan_make(problem, o->schedule, plan);
    const sl_order *known[3];
    int knowns = 0;
    const sl_shared_plan *const all[] = {side->first, side->running, side->offered};
    for (int i = 0; i < 3; i++)
        if (all[i])
            known[knowns++] = &all[i]->plan.order;
    sl_replan_options options = {.schedule = o->schedule,
                                 .known = known,
                                 .knowns = knowns,
                                 .work = o->config.work,
                                 .seed = o->config.job.seed};
    SL_TRY(sl_replan(problem, &options, plan));
    if (strcmp(plan->schedule, "known") == 0) /* one of these again: by its own name */
        snprintf(plan->schedule, sizeof plan->schedule, "%s",
                 (side->first ? side->first : side->offered)->plan.schedule);
    return SL_OK;
}

/* For delays that vary, and what it takes on the typical ones; where being careful costs the gain, the plan
 * for those. */
static sl_status make_candidate(sl_orchestrator *o, int replica, const sl_problem *typical, sl_time running,
                                sl_plan *plan, sl_time *time) {
    sl_side *side = &o->side[replica];
    sl_problem careful;
    sl_timeline timeline;
    SL_TRY(cautious(o, replica, typical, &careful));
    sl_status status = new_plan(o, side, &careful, plan);
    sl_problem_free(&careful);
    if (status == SL_OK)
        status = sl_replay(typical, &plan->program, typical->communication, typical->queue, &timeline);
    if (status == SL_OK) {
        *time = sl_timeline_makespan(&timeline);
        sl_timeline_free(&timeline);
    }
    if (status != SL_OK || pays(o, side, running, *time))
        return status;
    sl_plan_free(plan);
    SL_TRY(new_plan(o, side, typical, plan));
    *time = plan->makespan;
    return SL_OK;
}

static int dwells(const sl_orchestrator *o, const sl_side *side) {
    return o->iteration - side->last_swap < o->config.dwell;
}

/* The candidate, and whether it is worth a swap; candidates that are the first plan's order again are the
 * first plan. */
static sl_status ask_replica(sl_orchestrator *o, int replica, sl_time *running, sl_time *best) {
    sl_side *side = &o->side[replica];
    sl_problem usual;
    sl_plan plan = {0};
    sl_time first = 0, candidate = 0, spread = 0;
    sl_plans_drop(&side->candidate);
    SL_TRY(lately(o, replica, &usual));
    usual.microbatches = o->layout.split[replica];
    sl_status status = sl_plans_time(o, side->running, &usual, running);
    if (status == SL_OK)
        status = sl_plans_time(o, side->first, &usual, &first);
    if (status == SL_OK)
        status = make_candidate(o, replica, &usual, *running, &plan, &candidate);
    if (status == SL_OK)
        status = spread_of(o, replica, &spread);
    sl_problem_free(&usual);
    if (status == SL_OK && first <= candidate) {
        candidate = first;
        side->candidate = sl_plans_keep(side->first);
    } else if (status == SL_OK) {
        status = share(&plan, &side->candidate);
    }
    sl_plan_free(&plan);
    SL_TRY(status);
    side->news = 0;
    side->predicted = *running;
    side->best = candidate;
    int worth = pays(o, side, *running, candidate) && *running - candidate > spread &&
                side->candidate != side->running;
    if (!worth || dwells(o, side))
        sl_plans_drop(&side->candidate);
    if (worth && !dwells(o, side))
        side->gain = 1 - (double)candidate / (double)*running;
    *best = worth && !dwells(o, side) ? candidate : *running;
    return SL_OK;
}

/* What would be gained where nothing is slow is nobody's loss. */
static sl_status keep_replica(sl_orchestrator *o, int replica, sl_time *running, sl_time *best) {
    sl_side *side = &o->side[replica];
    sl_problem usual;
    sl_plans_drop(&side->candidate);
    SL_TRY(lately(o, replica, &usual));
    sl_status status = sl_plans_time(o, side->running, &usual, running);
    sl_problem_free(&usual);
    side->predicted = side->best = *best = *running;
    return status;
}

int sl_plans_is_slow(const sl_orchestrator *o, int replica) {
    for (int i = 0; i < o->case_count; i++) {
        const sl_case *c = &o->cases[i];
        if (c->seen && c->told >= 0 && c->view.loss > 0 && (c->replica < 0 || c->replica == replica))
            return 1;
    }
    return 0;
}

sl_status sl_plans_ask(sl_orchestrator *o, sl_time *running, sl_time *best) {
    *running = *best = 0;
    for (int r = 0; r < o->config.job.replicas; r++) {
        sl_side *side = &o->side[r];
        sl_time now = 0, then = 0;
        if (!sl_history_measured(&o->series, r, 1))
            continue;
        if (as_before(o, r)) {
            replace(&side->candidate, o->side[r - 1].candidate);
            side->predicted = o->side[r - 1].predicted;
            side->best = o->side[r - 1].best;
            continue;
        }
        sl_status status =
            sl_plans_is_slow(o, r) ? ask_replica(o, r, &now, &then) : keep_replica(o, r, &now, &then);
        if (status == SL_ENONE) { /* no plan: it stays as it is */
            then = now;
            status = SL_OK;
        }
        SL_TRY(status);
        *running = now > *running ? now : *running;
        *best = then > *best ? then : *best;
    }
    return SL_OK;
}

sl_status sl_plans_take(sl_orchestrator *o) {
    for (int r = 0; r < o->config.job.replicas; r++)
        if (o->side[r].candidate && o->side[r].candidate != o->side[r].running)
            replace(&o->side[r].wanted, o->side[r].candidate);
    return SL_OK;
}

/* Relief: the first plan; where something else is slow, if it is no worse now. */
static sl_status return_replica(sl_orchestrator *o, int replica) {
    sl_side *side = &o->side[replica];
    sl_problem usual;
    sl_time running = 0, first = 0;
    SL_TRY(lately(o, replica, &usual));
    sl_status status = sl_plans_time(o, side->running, &usual, &running);
    if (status == SL_OK)
        status = sl_plans_time(o, side->first, &usual, &first);
    sl_problem_free(&usual);
    side->predicted = running;
    side->best = first;
    if (status == SL_OK && (!sl_plans_is_slow(o, replica) || (double)first <= 1.005 * (double)running))
        side->wanted = sl_plans_keep(side->first);
    return status;
}

sl_status sl_plans_return(sl_orchestrator *o) {
    for (int r = 0; r < o->config.job.replicas; r++) {
        sl_side *side = &o->side[r];
        sl_plans_drop(&side->wanted);
        if (side->running != side->first && sl_history_measured(&o->series, r, 1))
            SL_TRY(return_replica(o, r));
    }
    return SL_OK;
}

/* A plan that has waited until what it was for is over is not wanted any more. */
void sl_plans_drop_late(sl_orchestrator *o) {
    for (int r = 0; r < o->config.job.replicas; r++) {
        sl_side *side = &o->side[r];
        int given = o->given && o->action.what == SL_DO_PLAN && o->action.replica == r;
        if (side->wanted && side->wanted != side->first && !side->refits && !given && !sl_plans_is_slow(o, r))
            sl_plans_drop(&side->wanted);
    }
}

int sl_plans_due(const sl_orchestrator *o) {
    for (int r = 0; r < o->config.job.replicas; r++)
        if (o->side[r].wanted && !dwells(o, &o->side[r]))
            return r;
    return -1;
}

int sl_plans_wait(const sl_orchestrator *o) {
    int least = -1;
    for (int r = 0; r < o->config.job.replicas; r++) {
        int left = o->config.dwell - (o->iteration - o->side[r].last_swap);
        if (o->side[r].wanted && (least < 0 || left < least))
            least = left > 0 ? left : 0;
    }
    return least;
}

/* ---- another layout ---- */

static int are_alike(const sl_problem *a, const sl_problem *b) {
    size_t times = (size_t)a->stages * sizeof *a->reduce;
    int same = a->microbatches == b->microbatches && memcmp(a->reduce, b->reduce, times) == 0;
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        same &= memcmp(a->time[kind], b->time[kind], times) == 0;
    for (int link = 0; link < a->ranks * a->ranks && same; link++)
        same = a->link[link].latency == b->link[link].latency &&
               a->link[link].transfer == b->link[link].transfer;
    return same;
}

/* For what is slow where it will run; replicas that are alike get the same. */
sl_status sl_plans_layout(sl_orchestrator *o, const sl_job_layout *layout) {
    sl_problem before = {0}, problem;
    int slow = 0;
    for (int i = 0; i < o->case_count; i++)
        slow |= o->cases[i].seen && o->cases[i].told >= 0;
    for (int r = 0; r < o->config.job.replicas; r++) {
        sl_plan plan = {0};
        SL_TRY(sl_model_problem(o->model, layout, r, &problem));
        int same = r > 0 && before.ranks && are_alike(&before, &problem);
        sl_status status = SL_OK;
        if (!slow && layout->split[r] == o->even[r]) {
            replace(&o->side[r].wanted, o->side[r].origin);
        } else if (same) {
            replace(&o->side[r].wanted, o->side[r - 1].wanted);
        } else {
            sl_side none = {0};
            sl_shared_plan *shared = NULL;
            int keeps = problem.microbatches == o->layout.split[r];
            status = new_plan(o, keeps ? &o->side[r] : &none, &problem, &plan);
            if (status == SL_OK)
                status = share(&plan, &shared);
            sl_plan_free(&plan);
            if (status == SL_OK) {
                sl_plans_drop(&o->side[r].wanted);
                o->side[r].wanted = shared;
            }
        }
        sl_problem_free(&before);
        before = problem;
        if (status != SL_OK) {
            sl_problem_free(&before);
            return status;
        }
    }
    sl_problem_free(&before);
    return SL_OK;
}

/* ---- a plan that was made for other times ---- */

static int off(double a, double b, double least) {
    double more = fmax(a, b), less = fmin(a, b);
    return more - less > least && more > (1 + OTHER_TIMES) * less;
}

/* Half of all ops, links or sums: a few that are slow from the beginning are no wrong plan. */
static int other_times(const sl_problem *planned, const sl_problem *now, double least) {
    int ops = 0, op = 0, sum = 0, links = 0, link = 0;
    for (int stage = 0; stage < now->stages; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++, ops++)
            op += off((double)planned->time[kind][stage], (double)now->time[kind][stage], least);
        sum += off((double)planned->reduce[stage], (double)now->reduce[stage], least);
        int next = sl_problem_next(now, stage), a = sl_problem_rank(now, stage);
        int b = next < 0 ? a : sl_problem_rank(now, next);
        for (int way = 0; way < 2 && a != b; way++, links++) {
            int at = way ? b * now->ranks + a : a * now->ranks + b;
            link += off((double)(planned->link[at].latency + planned->link[at].transfer),
                        (double)(now->link[at].latency + now->link[at].transfer), least);
        }
    }
    return 2 * op >= ops || 2 * sum >= now->stages || (links > 0 && 2 * link >= links);
}

/* The first plan's own kind of schedule for what is measured, where that is not what it was planned for. */
static sl_status refit(sl_orchestrator *o, int replica) {
    sl_side *side = &o->side[replica];
    double clocks = 2 * (double)sl_history_row(&o->series, o->series.rows - 1)->clock_error;
    sl_problem usual;
    sl_plan plan = {0};
    sl_time running = 0, spread = 0;
    SL_TRY(lately(o, replica, &usual));
    sl_status status = SL_OK;
    if (other_times(o->problem[replica], &usual, fmax(0.3 * SL_MS, clocks))) {
        status = sl_plans_time(o, side->running, &usual, &running);
        if (status == SL_OK)
            status = sl_plan_make(&usual, side->first->plan.schedule, &plan);
        if (status == SL_OK)
            status = spread_of(o, replica, &spread);
    }
    sl_problem_free(&usual);
    side->predicted = running;
    side->best = plan.makespan;
    if (status == SL_OK && running > 0 && pays(o, side, running, plan.makespan) &&
        running - plan.makespan > spread &&
        (double)(running - plan.makespan) > WORTH_A_REFIT * (double)running && ++side->better > 1) {
        sl_plans_drop(&side->wanted);
        status = share(&plan, &side->wanted);
        if (status == SL_OK)
            replace(&side->first, side->wanted);
        side->refits = status == SL_OK;
    }
    sl_plan_free(&plan);
    return status == SL_ENONE || status == SL_EINVAL ? SL_OK : status; /* of its kind there is none */
}

/* Asked in the beginning, once nothing is slow; later times are compared with what was healthy then. */
static sl_status consider_refit(sl_orchestrator *o, int replica) {
    sl_side *side = &o->side[replica];
    if (side->fits >= LOOKS || sl_history_measured(&o->series, replica, o->config.hold) < o->config.hold ||
        o->iteration % o->config.hold)
        return SL_OK;
    side->fits++;
    if (!as_before(o, replica))
        return refit(o, replica);
    if (o->side[replica - 1].wanted) {
        replace(&side->wanted, o->side[replica - 1].wanted);
        replace(&side->first, side->wanted);
        side->refits = 1;
    }
    return SL_OK;
}

sl_status sl_plans_rest(sl_orchestrator *o) {
    for (int r = 0; r < o->config.job.replicas; r++) {
        sl_side *side = &o->side[r];
        if (side->wanted || dwells(o, side) || !sl_history_measured(&o->series, r, 1))
            continue;
        if (side->running == side->first)
            SL_TRY(consider_refit(o, r));
        else if (o->iteration % o->config.hold == 0)
            SL_TRY(return_replica(o, r));
    }
    return SL_OK;
}

/* ---- the path ---- */

/* Equation 1 speaks of one stage per rank; elsewhere every link that has grown counts. */
int sl_plans_exceed(sl_orchestrator *o) {
    for (int i = 0; i < o->case_count; i++) {
        const sl_case *c = &o->cases[i];
        if (!c->seen || (c->cause != SL_CAUSE_LINK && c->view.part.kind != SL_PART_CARD) || c->replica < 0)
            continue;
        const sl_problem *healthy = sl_healthy_of(o, c->replica);
        int from = c->from >= 0 ? c->from : c->rank, to = c->to >= 0                     ? c->to
                                                          : c->rank + 1 < healthy->ranks ? c->rank + 1
                                                                                         : c->rank - 1;
        int adjacent = from - to == 1 || to - from == 1, first = from < to ? from : to;
        if (healthy->placement != SL_LINEAR || !adjacent ||
            c->now > (double)sl_plan_tolerance(healthy, &o->side[c->replica].running->plan, first))
            return 1;
    }
    return 0;
}

sl_status sl_plans_delegates(sl_orchestrator *o, int *count) {
    *count = o->config.queues > 0 ? o->config.queues : 1;
    for (int r = 0; r < o->config.job.replicas && o->config.queues <= 0; r++) {
        sl_problem usual;
        int from, to;
        if (as_before(o, r) || !sl_history_measured(&o->series, r, 1))
            continue;
        SL_TRY(lately(o, r, &usual));
        int needed = sl_queues_needed(&usual, &from, &to);
        sl_problem_free(&usual);
        *count = needed > *count ? needed : *count;
    }
    return SL_OK;
}
