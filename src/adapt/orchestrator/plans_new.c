/* The alternatives to each replica's running order: a new plan for recent measurements. It must gain more
 * than a swap costs, and more than the variation of the running order's time. */
#include "adapt/orchestrator/asked.h"
#include "adapt/orchestrator/orchestrator_inside.h"
#include "base/numbers.h"
#include "plan/family/family.h"
#include "plan/search/replan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WORTH_A_REFIT 0.05 /* least gain of a first plan for other times, as a share of an iteration */
enum {
    LOOKS = 3,    /* at whether the first plan fits the measurements, since healthy was learned */
    SPREAD_OF = 4 /* iterations whose spread leaves one out */
};
#define OTHER_TIMES 0.25 /* the plan was made for other times if they are off by more than this */

/* From the shortest to the longest; of SPREAD_OF and more without the one farthest from the median. */
static sl_time spread_without_farthest(sl_time *time, int count) {
    if (count < 2)
        return 0;
    sl_time middle = sl_median(time, count); /* sorts them */
    int far = count >= SPREAD_OF, low = far && middle - time[0] > time[count - 1] - middle;
    return time[far && !low ? count - 2 : count - 1] - time[low];
}

/* The variation of the running order's time over the window: a smaller gain may be noise. A single other
 * iteration, such as the first one after a further change, is none. */
static sl_status spread_of(sl_orchestrator *o, int replica, sl_time *spread) {
    int rows[SL_ROWS], times = 0;
    int count = sl_history_collect(&o->series, o->series.quiet, o->series.rows, o->config.hold, 0, rows);
    const sl_measured *last = NULL;
    sl_time time[SL_ROWS], takes = 0;
    for (int i = 0; i < count; i++) {
        const sl_measured *m = sl_history_row(&o->series, rows[i])->replica[replica];
        if (!m || m->problem.microbatches != o->layout.split[replica])
            continue;
        if (m != last)
            SL_TRY(sl_plans_time(o, o->side[replica].running, &m->problem, &takes));
        last = m;
        time[times++] = takes;
    }
    *spread = spread_without_farthest(time, times);
    return SL_OK;
}

/* Each link's latency and transfer are `percentile` of the last measurements, at least the typical ones, so
 * that a small spike fits into the slack. */
static sl_status cautious(sl_orchestrator *o, int replica, const sl_problem *typical, sl_problem *problem) {
    sl_time latency[SL_ROWS], transfer[SL_ROWS];
    int rows[SL_ROWS];
    int count = sl_history_collect(&o->series, o->series.since, o->series.rows, o->config.hold, 0, rows);
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

/* A swap must pay back its cost within `dwell`, the iterations it lasts at least, and gain enough. */
static int pays(const sl_orchestrator *o, const sl_side *side, sl_time running, sl_time candidate) {
    sl_time gain = running - candidate;
    return (double)gain > o->config.gain * (double)running && gain * o->config.dwell > side->cost;
}

/* A new rank map or split has no order to start from. */
static sl_status make_plan(const sl_orchestrator *o, const sl_side *side, const sl_problem *problem,
                           int64_t work, sl_plan *plan) {
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
                                 .ends = o->keeps_sums ? &o->side[0].origin->plan.order : NULL,
                                 .work = work,
                                 .seed = o->config.job.seed};
    SL_TRY(sl_replan(problem, &options, plan));
    if (strcmp(plan->schedule, "known") == 0) /* a known order again: under its own name */
        snprintf(plan->schedule, sizeof plan->schedule, "%s",
                 (side->first ? side->first : side->offered)->plan.schedule);
    return SL_OK;
}

static sl_status new_plan(sl_orchestrator *o, const sl_side *side, const sl_problem *problem, int64_t work,
                          sl_shared_plan **made) {
    const sl_shared_plan *const all[] = {side->first, side->running, side->offered};
    sl_question question = sl_question_about(problem);
    sl_plan plan = {0};
    for (int i = 0; i < 3; i++)
        sl_question_add(&question, all[i] ? (uint64_t)all[i]->number : 0);
    sl_question_add(&question, (uint64_t)work << 1 | (uint64_t)o->keeps_sums);
    *made = sl_plans_keep(sl_asked_plan(o->asked, &question));
    if (*made)
        return SL_OK;
    sl_status status = make_plan(o, side, problem, work, &plan);
    SL_THEN(status, sl_plans_share(o, &plan, made));
    if (status == SL_OK)
        sl_asked_keep_plan(o->asked, &question, *made);
    sl_plan_free(&plan);
    return status;
}

/* A plan for varying delays, with its time on typical ones; if caution costs the gain, the plan for those. */
static sl_status make_candidate(sl_orchestrator *o, int replica, const sl_problem *typical, sl_time running,
                                sl_shared_plan **plan, sl_time *time) {
    sl_side *side = &o->side[replica];
    sl_problem careful;
    SL_TRY(cautious(o, replica, typical, &careful));
    sl_status status = new_plan(o, side, &careful, o->config.work, plan);
    sl_problem_free(&careful);
    SL_THEN(status, sl_plans_time_in(o, *plan, typical, typical->communication, time));
    if (status != SL_OK || pays(o, side, running, *time))
        return status;
    sl_plans_drop(plan);
    SL_TRY(new_plan(o, side, typical, o->config.work, plan));
    *time = (*plan)->plan.value;
    return SL_OK;
}

/* The candidate, and whether it is worth a swap; one with the first plan's order becomes the first plan. */
static sl_status ask_replica(sl_orchestrator *o, int replica, sl_time *running, sl_time *best) {
    sl_side *side = &o->side[replica];
    sl_problem usual;
    sl_shared_plan *plan = NULL;
    sl_time first = 0, candidate = 0, spread = 0;
    sl_status status;
    sl_plans_drop(&side->candidate);
    SL_TRY(sl_plans_lately(o, replica, &usual));
    usual.microbatches = o->layout.split[replica];
    SL_TRY_GOTO(err_free, status, sl_plans_time(o, side->running, &usual, running));
    SL_TRY_GOTO(err_free, status, sl_plans_time(o, side->first, &usual, &first));
    SL_TRY_GOTO(err_free, status, make_candidate(o, replica, &usual, *running, &plan, &candidate));
    SL_TRY_GOTO(err_free, status, spread_of(o, replica, &spread));
    sl_problem_free(&usual);
    if (first <= candidate) {
        candidate = first;
        sl_plans_replace(&plan, side->first);
    }
    side->candidate = plan;
    side->changed = 0;
    side->predicted = *running;
    side->best = candidate;
    int worth = pays(o, side, *running, candidate) && *running - candidate > spread &&
                side->candidate != side->running;
    if (!worth || sl_plans_dwell(o, side))
        sl_plans_drop(&side->candidate);
    if (worth && !sl_plans_dwell(o, side))
        side->gain = 1 - (double)candidate / (double)*running;
    *best = worth && !sl_plans_dwell(o, side) ? candidate : *running;
    return SL_OK;
err_free:
    sl_plans_drop(&plan);
    sl_problem_free(&usual);
    return status;
}

/* If nothing is slow, a possible gain does not count as loss. */
static sl_status keep_replica(sl_orchestrator *o, int replica, sl_time *running, sl_time *best) {
    sl_side *side = &o->side[replica];
    sl_problem usual;
    sl_plans_drop(&side->candidate);
    SL_TRY(sl_plans_lately(o, replica, &usual));
    sl_status status = sl_plans_time(o, side->running, &usual, running);
    sl_problem_free(&usual);
    side->predicted = side->best = *best = *running;
    return status;
}

sl_status sl_plans_ask(sl_orchestrator *o, sl_time *running, sl_time *best) {
    const sl_plans_window w = sl_plans_window_of(o);
    *running = *best = 0;
    for (int r = 0; r < o->config.job.replicas; r++) {
        sl_side *side = &o->side[r];
        sl_time now = 0, then = 0;
        if (!sl_history_measured(&o->series, r, 1))
            continue;
        side->asked = o->iteration;
        if (sl_plans_as_before(o, &w, r)) {
            sl_plans_replace(&side->candidate, o->side[r - 1].candidate);
            side->predicted = o->side[r - 1].predicted;
            side->best = o->side[r - 1].best;
            continue;
        }
        sl_status status =
            sl_plans_is_slow(o, r) ? ask_replica(o, r, &now, &then) : keep_replica(o, r, &now, &then);
        if (status == SL_ENONE) { /* no plan: keep the running one */
            then = now;
            status = SL_OK;
        }
        SL_TRY(status);
        *running = now > *running ? now : *running;
        *best = then > *best ? then : *best;
    }
    return SL_OK;
}

sl_status sl_plans_may_return(sl_orchestrator *o, int replica, int *may) {
    sl_side *side = &o->side[replica];
    sl_problem usual;
    sl_time running = 0, first = 0;
    SL_TRY(sl_plans_lately(o, replica, &usual));
    sl_status status = sl_plans_time(o, side->running, &usual, &running);
    SL_THEN(status, sl_plans_time(o, side->first, &usual, &first));
    sl_problem_free(&usual);
    side->predicted = running;
    side->best = first;
    *may = !sl_plans_is_slow(o, replica) || (double)first <= 1.005 * (double)running;
    return status;
}

static sl_status return_replica(sl_orchestrator *o, int replica) {
    int may;
    SL_TRY(sl_plans_may_return(o, replica, &may));
    if (may)
        o->side[replica].wanted = sl_plans_keep(o->side[replica].first);
    return SL_OK;
}

sl_status sl_plans_return(sl_orchestrator *o) {
    for (int r = 0; r < o->config.job.replicas; r++) {
        sl_side *side = &o->side[r];
        sl_plans_drop(&side->wanted);
        side->refits = 0;
        if (side->running != side->first && sl_history_measured(&o->series, r, 1))
            SL_TRY(return_replica(o, r));
    }
    return SL_OK;
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

/* The plan that a replica will want; `before`: the problem of the previous replica. */
static sl_status plan_replica(sl_orchestrator *o, const sl_job_layout *layout, int replica, int slow,
                              const sl_problem *before, const sl_problem *problem) {
    sl_side *side = &o->side[replica];
    sl_shared_plan *shared = NULL;
    const sl_side none = {0};
    if (!slow && layout->split[replica] == o->even[replica]) {
        sl_plans_replace(&side->wanted, side->origin);
        return SL_OK;
    }
    if (before->ranks && are_alike(before, problem)) {
        sl_plans_replace(&side->wanted, o->side[replica - 1].wanted);
        return SL_OK;
    }
    int keeps = problem->microbatches == o->layout.split[replica];
    SL_TRY(new_plan(o, keeps ? side : &none, problem, o->config.work, &shared));
    sl_plans_drop(&side->wanted);
    side->wanted = shared;
    return SL_OK;
}

/* For the components that are slow in the new layout; identical replicas share a plan. */
sl_status sl_plans_layout(sl_orchestrator *o, const sl_job_layout *layout) {
    sl_problem before = {0}, problem;
    sl_status status = SL_OK;
    int slow = 0;
    for (int i = 0; i < o->case_count; i++)
        slow |= o->cases[i].seen && o->cases[i].announced >= 0;
    for (int r = 0; r < o->config.job.replicas && status == SL_OK; r++) {
        status = sl_model_problem(o->losses.model, layout, r, &problem);
        if (status != SL_OK)
            break;
        status = plan_replica(o, layout, r, slow, &before, &problem);
        sl_problem_free(&before);
        before = problem;
    }
    sl_problem_free(&before);
    return status;
}

/* ---- a plan that was made for other times ---- */

static int off(double a, double b, double least) {
    double more = fmax(a, b), less = fmin(a, b);
    return more - less > least && more > (1 + OTHER_TIMES) * less;
}

/* Half of all ops, links or sums: a few that are slow from the beginning do not make a plan wrong. */
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

/* The best plan; else, if it was planned for other times, one of its own kind. NULL: none is needed. */
static sl_status make_first(sl_orchestrator *o, int replica, const sl_problem *usual, sl_shared_plan **made) {
    sl_side *side = &o->side[replica];
    sl_plan plan = {0};
    *made = NULL;
    if (o->improve)
        return new_plan(o, side, usual, o->improve, made);
    double clocks = 2 * (double)sl_history_row(&o->series, o->series.rows - 1)->clock_error;
    if (!other_times(o->problem[replica], usual, fmax(0.3 * SL_MS, clocks)))
        return SL_OK;
    sl_status status = sl_plan_make(usual, side->first->plan.schedule, &plan);
    SL_THEN(status, sl_plans_share(o, &plan, made));
    sl_plan_free(&plan);
    return status;
}

/* A first plan for the measured times is worth a swap if it gains enough; without a search for the best one,
 * twice. */
static int worth_a_refit(const sl_orchestrator *o, sl_side *side, sl_time running, sl_time made,
                         sl_time spread) {
    double least = o->improve ? o->config.gain : WORTH_A_REFIT;
    return running > 0 && pays(o, side, running, made) && running - made > spread &&
           (double)(running - made) > least * (double)running && (++side->better > 1 || o->improve);
}

static sl_status refit(sl_orchestrator *o, int replica) {
    sl_side *side = &o->side[replica];
    sl_problem usual;
    sl_shared_plan *made = NULL;
    sl_time running = 0, spread = 0;
    SL_TRY(o->series.rows ? sl_plans_lately(o, replica, &usual)
                          : sl_problem_copy(sl_healthy_of(o, replica), &usual));
    usual.microbatches = o->layout.split[replica];
    sl_status status = make_first(o, replica, &usual, &made);
    if (made) {
        SL_THEN(status, sl_plans_time(o, side->running, &usual, &running));
        SL_THEN(status, spread_of(o, replica, &spread));
    }
    sl_problem_free(&usual);
    side->predicted = running;
    side->best = made ? made->plan.value : 0;
    if (status == SL_OK && made && worth_a_refit(o, side, running, side->best, spread)) {
        if (o->config.frozen) {
            side->fits = LOOKS;
            sl_events_keep_first(o, replica);
        } else {
            sl_plans_replace(&side->wanted, made);
            side->refits = 1;
        }
    } else if (status == SL_OK && o->improve && o->series.rows && side->best >= running) {
        side->fits = LOOKS; /* the search would find nothing else */
    }
    sl_plans_drop(&made);
    return status == SL_ENONE || status == SL_EINVAL ? SL_OK : status; /* no plan of its kind */
}

/* Each time that healthy was learned; later times are compared with the healthy ones of that time. */
int sl_plans_may_refit(const sl_orchestrator *o, int replica) {
    const sl_side *side = &o->side[replica];
    return side->fits < LOOKS && !side->wanted && side->running == side->first;
}

static int may_refit_now(const sl_orchestrator *o, int replica) {
    int rows = o->series.rows - o->series.quiet;
    int enough = rows >= o->config.hold && rows % o->config.hold == 0 &&
                 sl_history_measured(&o->series, replica, o->config.hold) >= o->config.hold;
    return sl_plans_may_refit(o, replica) && (enough || !o->series.rows);
}

/* Replicas that run the same first plan and are planned for the same times get the same one. */
static sl_status refit_all(sl_orchestrator *o, const sl_plans_window *w) {
    for (int r = 0; r < o->config.job.replicas && o->improve; r++)
        if (!may_refit_now(o, r))
            return SL_OK;
    for (int r = 0; r < o->config.job.replicas; r++) {
        sl_side *side = &o->side[r], *before = r > 0 ? &o->side[r - 1] : NULL;
        if (!may_refit_now(o, r) || (!o->improve && sl_plans_dwell(o, side)))
            continue;
        side->fits++;
        if (!before || (o->improve ? side->first != before->first : !sl_plans_as_before(o, w, r))) {
            SL_TRY(refit(o, r));
        } else if (before->wanted && before->refits) {
            sl_plans_replace(&side->wanted, before->wanted);
            side->refits = 1;
            side->predicted = before->predicted;
            side->best = before->best;
        }
    }
    return SL_OK;
}

sl_status sl_plans_rest(sl_orchestrator *o) {
    const sl_plans_window w = sl_plans_window_of(o);
    for (int r = 0; r < o->config.job.replicas; r++) {
        sl_side *side = &o->side[r];
        if (!side->wanted && !sl_plans_dwell(o, side) && sl_history_measured(&o->series, r, 1) &&
            side->running != side->first && o->iteration % o->config.hold == 0)
            SL_TRY(return_replica(o, r));
    }
    return refit_all(o, &w);
}
