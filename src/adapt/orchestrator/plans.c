/* The plan each replica runs: the running order replayed on recent measurements (Adaptra, section 6), and
 * waiting plans, since two swaps of a replica are at least `dwell` iterations apart, whatever links do. */
#include "adapt/orchestrator/asked.h"
#include "adapt/orchestrator/orchestrator_inside.h"
#include "adapt/orchestrator/queues.h"
#include "base/memory.h"
#include "plan/timing/objective.h"
#include "plan/timing/replay.h"

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

sl_status sl_plans_share(sl_orchestrator *o, sl_plan *plan, sl_shared_plan **shared) {
    SL_TRY(sl_alloc(shared, 1, sizeof **shared));
    (*shared)->references = 1;
    (*shared)->number = ++o->numbered;
    (*shared)->plan = *plan;
    *plan = (sl_plan){0};
    return SL_OK;
}

void sl_plans_replace(sl_shared_plan **slot, sl_shared_plan *with) {
    sl_shared_plan *kept = sl_plans_keep(with);
    sl_plans_drop(slot);
    *slot = kept;
}

/* Replicas that start with the same plan share it. */
sl_status sl_plans_set(sl_orchestrator *o, const sl_plan *const *plan) {
    for (int r = 0; r < o->config.job.replicas; r++) {
        sl_side *side = &o->side[r];
        sl_plan own_plan;
        if (r > 0 && plan[r] == plan[r - 1]) {
            sl_plans_replace(&side->first, o->side[r - 1].first);
        } else {
            sl_problem own = *o->problem[r];
            sl_shared_plan *shared = NULL;
            own.microbatches = o->layout.split[r];
            sl_status status = sl_plan_of_order(&own, &plan[r]->order, plan[r]->schedule, &own_plan);
            SL_THEN(status, sl_plans_share(o, &own_plan, &shared));
            sl_plan_free(&own_plan);
            SL_TRY(status);
            sl_plans_drop(&side->first);
            side->first = shared;
        }
        sl_plans_replace(&side->running, side->first);
    }
    return SL_OK;
}

sl_status sl_plans_open(sl_orchestrator *o, const sl_orchestrator_config *config) {
    for (int r = 0; r < o->config.job.replicas; r++) {
        o->side[r].last_swap = -config->dwell;
        o->side[r].asked = -1;
        o->side[r].cost = config->cost[SL_STRATEGY_SCHEDULE];
    }
    SL_TRY(sl_asked_open(&o->asked));
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
        sl_measured_drop(o->side[r].ran.measured);
    }
    sl_asked_close(o->asked);
}

/* ---- times ---- */

static sl_regime regime(const sl_orchestrator *o) {
    return o->layout.delegates ? SL_DECOUPLED : o->problem[0]->communication;
}

sl_status sl_plans_time_in(const sl_orchestrator *o, const sl_shared_plan *plan, const sl_problem *problem,
                           sl_regime way, sl_time *time) {
    sl_timeline timeline;
    sl_problem own = *problem;
    sl_question question = sl_question_about(problem);
    sl_question_add(&question, (uint64_t)plan->number << 8 | way);
    if (sl_asked_time(o->asked, &question, time))
        return SL_OK;
    own.communication = way;
    SL_TRY(sl_replay(&own, &plan->plan.program, way, own.queue, &timeline));
    sl_status status = sl_objective_value(&own, &plan->plan.program, &timeline, time);
    sl_timeline_free(&timeline);
    if (status == SL_OK)
        sl_asked_keep_time(o->asked, &question, *time);
    return status;
}

sl_status sl_plans_time(const sl_orchestrator *o, const sl_shared_plan *plan, const sl_problem *problem,
                        sl_time *time) {
    return sl_plans_time_in(o, plan, problem, regime(o), time);
}

static sl_time newer(sl_time usual, sl_time recent) {
    sl_time low = usual < recent ? usual : recent, high = usual < recent ? recent : usual;
    return high - low > 300 * (SL_MS / 1000) && high - low > low / 2 ? recent : usual;
}

/* Ops of a slow device without recent measurements are assumed to be as slow as its measured ones. */
static void spoil_unseen(const sl_orchestrator *o, int replica, int count, sl_problem *usual) {
    for (int i = 0; i < o->case_count; i++) {
        const sl_case *c = &o->cases[i];
        if (!c->seen || c->reported || c->cause != SL_CAUSE_DEVICE || c->replica != replica)
            continue;
        for (int at = 0; at < SL_OP_KINDS * usual->stages; at++) {
            int kind = at / usual->stages, stage = at % usual->stages;
            if (sl_problem_rank(usual, stage) == c->rank &&
                !sl_history_saw(&o->series, replica, count, kind, stage))
                usual->time[kind][stage] =
                    (sl_time)((double)usual->time[kind][stage] * c->view.part.slowdown);
        }
    }
}

/* Medians of the window; but a value at least half as long again, or shorter by as much, in two of the last
 * three measurements is used as measured there. */
sl_status sl_plans_lately(sl_orchestrator *o, int replica, sl_problem *usual) {
    sl_problem recent;
    int count = sl_history_measured(&o->series, replica, o->config.hold);
    SL_TRY(sl_history_typical(&o->series, replica, count, usual));
    usual->communication = regime(o);
    if (count <= 3) {
        spoil_unseen(o, replica, count, usual);
        return SL_OK;
    }
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
    spoil_unseen(o, replica, count, usual);
    return SL_OK;
}

sl_plans_window sl_plans_window_of(const sl_orchestrator *o) {
    sl_plans_window w;
    int rows[SL_ROWS],
        count = sl_history_collect(&o->series, o->series.since, o->series.rows, o->config.hold, 0, rows);
    w.count = sl_history_distinct(&o->series, rows, count, w.rows);
    return w;
}

/* Identical replicas of a simulation are asked once. */
int sl_plans_as_before(const sl_orchestrator *o, const sl_plans_window *w, int replica) {
    if (replica == 0)
        return 0;
    const sl_side *a = &o->side[replica], *b = &o->side[replica - 1];
    return a->running == b->running && a->first == b->first && a->last_swap == b->last_swap &&
           sl_history_alike(&o->series, w->rows, w->count, replica, replica - 1);
}

/* The measurement of a replica shared by all rows of the window; NULL: they differ. */
static sl_measured *only_one(const sl_orchestrator *o, const sl_plans_window *w, int replica) {
    sl_measured *only = NULL;
    for (int i = 0; i < w->count; i++) {
        sl_measured *m = o->series.row[w->rows[i] % SL_ROWS].replica[replica];
        if (!m || (only && m != only))
            return NULL;
        only = m;
    }
    return only;
}

/* A number that changes if another device of the replica is slow, or one is slow by another factor. */
static double slowdowns_of(const sl_orchestrator *o, int replica) {
    double product = 1;
    for (int i = 0; i < o->case_count; i++) {
        const sl_case *c = &o->cases[i];
        if (c->seen && c->cause == SL_CAUSE_DEVICE && c->replica == replica)
            product = product * c->view.part.slowdown + c->rank;
    }
    return product;
}

/* A simulation repeats itself. */
static sl_status time_running(sl_orchestrator *o, const sl_plans_window *w, int replica, sl_time *time) {
    sl_side *side = &o->side[replica];
    sl_measured *only = only_one(o, w, replica);
    double slowdown = only ? slowdowns_of(o, replica) : 0;
    sl_problem usual;
    if (only && side->ran.measured == only && side->ran.plan == side->running->number &&
        side->ran.regime == regime(o) && side->ran.slowdown == slowdown) {
        *time = side->ran.time;
        return SL_OK;
    }
    SL_TRY(sl_plans_lately(o, replica, &usual));
    sl_status status = sl_plans_time(o, side->running, &usual, time);
    sl_problem_free(&usual);
    sl_measured_drop(side->ran.measured);
    side->ran.measured = status == SL_OK ? sl_measured_keep(only) : NULL;
    side->ran.plan = side->running->number;
    side->ran.regime = regime(o);
    side->ran.slowdown = slowdown;
    side->ran.time = *time;
    return status;
}

sl_status sl_plans_running(sl_orchestrator *o, sl_time *time) {
    const sl_plans_window w = sl_plans_window_of(o);
    *time = 0;
    for (int r = 0; r < o->config.job.replicas; r++) {
        sl_time takes = 0;
        if (sl_plans_as_before(o, &w, r) || !sl_history_measured(&o->series, r, 1))
            continue;
        SL_TRY(time_running(o, &w, r, &takes));
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
        SL_TRY(sl_plans_time_in(o, o->side[r].origin, &own,
                                o->config.delegates ? SL_DECOUPLED : o->problem[0]->communication, &takes));
        *time = takes > *time ? takes : *time;
    }
    return SL_OK;
}

sl_status sl_plans_keeping(sl_orchestrator *o, double *loss) {
    sl_time running = 0, first = 0;
    *loss = 0;
    for (int r = 0; r < o->config.job.replicas; r++) {
        const sl_side *side = &o->side[r];
        sl_problem own = *sl_healthy_of(o, r);
        sl_time time;
        own.microbatches = o->layout.split[r];
        SL_TRY(sl_plans_time_in(o, side->running, &own, regime(o), &time));
        running = time > running ? time : running;
        SL_TRY(sl_plans_time_in(o, side->first, &own, regime(o), &time));
        first = time > first ? time : first;
    }
    if (running > first)
        *loss = 1 - (double)first / (double)running;
    return SL_OK;
}

/* ---- plans that wait ---- */

int sl_plans_is_slow(const sl_orchestrator *o, int replica) {
    for (int i = 0; i < o->case_count; i++) {
        const sl_case *c = &o->cases[i];
        if (c->seen && c->announced >= 0 && c->view.loss > 0 && (c->replica < 0 || c->replica == replica))
            return 1;
    }
    return 0;
}

sl_status sl_plans_take(sl_orchestrator *o) {
    for (int r = 0; r < o->config.job.replicas; r++)
        if (o->side[r].candidate &&
            !sl_order_equal(&o->side[r].candidate->plan.order, &o->side[r].running->plan.order)) {
            sl_plans_replace(&o->side[r].wanted, o->side[r].candidate);
            o->side[r].refits = 0;
        }
    return SL_OK;
}

/* A waiting plan is dropped once the slowness it was made for has ended, and a waiting return once the
 * replica is slow again in a way that the first plan is worse for. */
sl_status sl_plans_drop_late(sl_orchestrator *o) {
    for (int r = 0; r < o->config.job.replicas; r++) {
        sl_side *side = &o->side[r];
        int given = o->doing.given && o->doing.action.what == SL_DO_PLAN && o->doing.action.replica == r,
            keeps = sl_plans_is_slow(o, r);
        if (!side->wanted || side->refits || given)
            continue;
        if (side->wanted == side->first) {
            keeps = !keeps;
            if (!keeps && sl_history_measured(&o->series, r, 1))
                SL_TRY(sl_plans_may_return(o, r, &keeps));
        }
        if (!keeps)
            sl_plans_drop(&side->wanted);
    }
    return SL_OK;
}

int sl_plans_due(const sl_orchestrator *o) {
    for (int r = 0; r < o->config.job.replicas; r++)
        if (o->side[r].wanted && !sl_plans_dwell(o, &o->side[r]))
            return r;
    return -1;
}

int sl_plans_all_want(const sl_orchestrator *o) {
    int all = o->side[0].wanted && o->side[0].refits && o->improve;
    for (int r = 1; r < o->config.job.replicas; r++)
        all &= o->side[r].wanted == o->side[0].wanted && o->side[r].refits;
    return all;
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

/* ---- the path ---- */

/* Equation 1 assumes one stage per rank; otherwise every link that has grown counts. */
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
    const sl_plans_window w = sl_plans_window_of(o);
    *count = o->config.queues > 0 ? o->config.queues : 1;
    for (int r = 0; r < o->config.job.replicas && o->config.queues <= 0; r++) {
        sl_problem usual;
        int from, to;
        if (sl_plans_as_before(o, &w, r) || !sl_history_measured(&o->series, r, 1))
            continue;
        SL_TRY(sl_plans_lately(o, r, &usual));
        int needed = sl_queues_needed(&usual, &from, &to);
        sl_problem_free(&usual);
        *count = needed > *count ? needed : *count;
    }
    return SL_OK;
}
