/* One iteration: measurements become a row, slow components incidents, and the ladder's decisions actions. */
#include "adapt/orchestrator/orchestrator_inside.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- one iteration ---- */

static sl_status check_iteration(const sl_orchestrator *o, const sl_orchestrator_iteration *it) {
    if (it->now < o->now || it->iteration < o->iteration)
        return sl_error(SL_EINVAL, "iteration %d at %.3f ms comes after iteration %d at %.3f ms",
                        it->iteration, sl_to_ms(it->now), o->iteration, sl_to_ms(o->now));
    for (int r = 0; it->replica && r < o->config.job.replicas && !o->unknown; r++) {
        if (r > 0 && it->replica[r] == it->replica[r - 1] && o->problem[r] == o->problem[r - 1])
            continue;
        const sl_problem *p = it->replica[r] ? &it->replica[r]->problem : o->problem[r];
        if (p->ranks != o->problem[r]->ranks || p->stages != o->problem[r]->stages ||
            p->placement != o->problem[r]->placement)
            return sl_error(
                SL_EINVAL,
                "%d ranks and %d stages (%s) were measured of replica %d, which has %d and %d (%s)", p->ranks,
                p->stages, sl_placement_name(p->placement), r, o->problem[r]->ranks, o->problem[r]->stages,
                sl_placement_name(o->problem[r]->placement));
    }
    return SL_OK;
}

static int most_costly(const sl_orchestrator *o) {
    int most = 0;
    for (int i = 0; i < o->case_count; i++)
        most = o->cases[i].costly > most ? o->cases[i].costly : most;
    return most;
}

/* Rows with slow components do not count as healthy; the others update the healthy times. */
static sl_status learn(sl_orchestrator *o) {
    sl_row *row = sl_history_row(&o->series, o->series.rows - 1);
    row->named = sl_cases_any_seen(o);
    if (row->named || sl_naming_is_slow(&o->naming)) {
        row->slow = 1;
        return SL_OK;
    }
    if (o->series.learnt && sl_history_repeats(&o->series, 2))
        return SL_OK;
    SL_TRY(sl_history_learn(&o->series));
    return sl_losses_renew(o);
}

static int changes_nothing(const sl_orchestrator *o) {
    return o->doing.action.what == SL_DO_LAYOUT &&
           memcmp(o->doing.next.process, o->layout.process,
                  (size_t)o->processes * sizeof *o->layout.process) == 0 &&
           memcmp(o->doing.next.split, o->layout.split,
                  (size_t)o->config.job.replicas * sizeof *o->layout.split) == 0;
}

static void drop_plan(sl_side *side) {
    sl_plans_drop(&side->wanted);
    side->refits = 0;
}

static void drop_wanted(sl_orchestrator *o) {
    for (int r = 0; r < o->config.job.replicas; r++)
        drop_plan(&o->side[r]);
}

/* The ladder's action is not given out. If memory runs out in reporting that, the next call reports it. */
static sl_status end_at_once(sl_orchestrator *o, int done) {
    sl_status status = sl_ladder_ended(o->ladder, o->now, 0, done);
    o->doing.unended = status != SL_OK;
    return status;
}

static sl_status give(sl_orchestrator *o, const sl_action *said) {
    if (said->kind == SL_ACTION_APPLY &&
        o->strategies.refused & 1u << o->strategies.kind[said->strategy]) /* planned before the refusal */
        return end_at_once(o, 0);
    sl_status status = sl_strategies_act(o, said);
    if (status == SL_OK && changes_nothing(o)) {
        drop_wanted(o);
        o->doing.action.what = SL_DO_PLAN; /* an empty plan */
    }
    o->doing.strategy = said->strategy;
    o->doing.undoes = said->kind == SL_ACTION_UNDO;
    if (status == SL_OK && (o->doing.action.what != SL_DO_PLAN || sl_plans_due(o) >= 0))
        return SL_OK;
    /* nothing to give out: plans wait for their time, or none fits the layout */
    o->doing.action.id = 0;
    o->doing.strategy = -1;
    if (status == SL_ENOMEM) {
        drop_wanted(o);
        o->doing.unended = 1;
        return status;
    }
    sl_strategies_forget(o);
    return end_at_once(o, status == SL_OK);
}

/* A new split and new positions are the same mechanism: until measured, both are assumed to take the same. */
static void share_cost(sl_orchestrator *o, sl_strategy_kind kind, sl_time took) {
    sl_strategy_kind other = kind == SL_STRATEGY_BALANCE ? SL_STRATEGY_TOPOLOGY : SL_STRATEGY_BALANCE;
    o->strategies.costs_known |= 1u << kind;
    if (o->strategies.rung[other] >= 0 && !(o->strategies.costs_known & 1u << other))
        (void)sl_ladder_estimate(o->ladder, o->strategies.rung[other], took);
}

static sl_status end_of_strategy(sl_orchestrator *o, sl_time took, int done) {
    if (o->doing.strategy < 0)
        return SL_OK;
    sl_strategy_kind kind = (sl_strategy_kind)o->strategies.kind[o->doing.strategy];
    double takes = o->strategies.known[kind] ? o->strategies.takes[kind] : 0;
    SL_TRY(sl_ladder_reserve(o->ladder));
    o->doing.strategy = -1;
    sl_strategies_forget(o);
    if (done && takes > 0 && isfinite(takes))
        o->losses.believed = takes; /* until measured */
    if (done && took > 0 && (kind == SL_STRATEGY_BALANCE || kind == SL_STRATEGY_TOPOLOGY))
        share_cost(o, kind, took);
    return sl_ladder_ended(o->ladder, o->now, took, done);
}

/* Nothing is slow, and no mitigation by schedule is in effect. */
static int rests(const sl_orchestrator *o) {
    int rung = o->ladder ? o->strategies.rung[SL_STRATEGY_SCHEDULE] : -1;
    return rung >= 0 && !sl_cases_any_seen(o) && (!o->config.frozen || o->improve) &&
           !(o->strategies.refused & 1u << SL_STRATEGY_SCHEDULE) && !sl_ladder_in_effect(o->ladder, rung);
}

static sl_status decide(sl_orchestrator *o) {
    sl_action said;
    sl_strategies_forget(o);
    SL_TRY(sl_incidents_announce(o));
    if (!o->doing.action.id || o->doing.action.what != SL_DO_LAYOUT) /* which brings its own plans */
        SL_TRY(sl_plans_drop_late(o));
    if (!o->doing.given && o->doing.strategy >= 0 && o->doing.action.what == SL_DO_PLAN &&
        sl_plans_due(o) < 0) {
        o->doing.action.id = 0; /* its remaining plans were dropped */
        SL_TRY(end_of_strategy(o, o->side[0].cost, 1));
    }
    if (o->doing.unended)
        SL_TRY(end_at_once(o, 0));
    if (o->doing.given || o->doing.action.id || o->doing.strategy >= 0)
        return SL_OK;
    SL_TRY(sl_ladder_next(o->ladder, o->now, &said));
    if (said.kind == SL_ACTION_PROFILE)
        o->doing.action =
            (sl_orchestrator_action){.id = ++o->doing.next_id, .what = SL_DO_NETWORK, .replica = -1};
    if (said.kind == SL_ACTION_APPLY || said.kind == SL_ACTION_UNDO)
        return give(o, &said);
    return sl_incidents_keep(o);
}

/* Measurements during an action count neither as before nor as after it. */
static sl_status think(sl_orchestrator *o) {
    int ready, last = o->series.rows - 1;
    SL_TRY(sl_incidents_see(o, &ready));
    o->sudden = 0;
    if (ready &&
        !sl_cases_any_seen(o)) { /* a link shows immediately, by the median over its messages; ops vary */
        SL_TRY(sl_compare(&o->series, &last, 1, 0, &o->last));
        o->sudden = o->last.slow_links > 0;
    }
    if (!ready)
        return SL_OK;
    if (!o->ladder)
        SL_TRY(sl_strategies_open(o));
    if (!o->doing.given && !o->doing.action.id && sl_incidents_wants_network(o)) {
        o->doing.action =
            (sl_orchestrator_action){.id = ++o->doing.next_id, .what = SL_DO_NETWORK, .replica = -1};
        return SL_OK;
    }
    SL_TRY(decide(o));
    return rests(o) ? sl_plans_rest(o) : SL_OK;
}

/* An iteration's time is not comparable with the first ones. */
static int is_altered(const sl_orchestrator *o) {
    int altered = memcmp(o->layout.split, o->even, (size_t)o->config.job.replicas * sizeof *o->even) != 0;
    for (int r = 0; r < o->config.job.replicas && !altered; r++)
        altered = o->side[r].running != o->side[r].origin;
    return altered;
}

static sl_status name(sl_orchestrator *o) {
    sl_naming_result result;
    o->naming.altered = is_altered(o);
    SL_TRY(sl_naming_step(&o->naming, &o->series, sl_cases_any_seen(o), most_costly(o), o->uneven, &result));
    sl_events_naming(o, &result);
    return sl_losses_renew(o); /* healthy times may have been learned again */
}

/* The time of the running orders on the measurements, if iteration times are not given. */
static sl_status replay_of(const sl_orchestrator *o, const sl_orchestrator_iteration *it, sl_time *time) {
    for (int r = 0; it->replica && r < o->config.job.replicas; r++) {
        sl_time takes;
        if (!it->replica[r] || it->replica[r]->problem.microbatches != o->layout.split[r] ||
            (r > 0 && it->replica[r] == it->replica[r - 1] && o->side[r].running == o->side[r - 1].running))
            continue;
        SL_TRY(sl_plans_time(o, o->side[r].running, &it->replica[r]->problem, &takes));
        *time = takes > *time ? takes : *time;
    }
    return SL_OK;
}

/* Adds a row; the first reported time replaces the replayed ones. */
static sl_status add_row(sl_orchestrator *o, const sl_orchestrator_iteration *it) {
    sl_orchestrator_iteration row = *it;
    if (it->time > 0 && o->replayed) {
        sl_history_untimed(&o->series);
        o->replayed = 0;
        o->losses.healthy_time = 0;
    }
    o->timed |= it->time > 0;
    if (!o->timed)
        SL_TRY(replay_of(o, it, &row.time));
    o->replayed |= row.time > it->time;
    return sl_history_add(&o->series, &row);
}

sl_status sl_steps_result(sl_orchestrator *o, sl_status status) {
    if (status == SL_OK && o->failed != SL_OK)
        status = sl_error(o->failed, "out of memory for a decision");
    o->failed = SL_OK;
    o->doing.asks_again |= status == SL_ENOMEM;
    return status;
}

static sl_status result_of(sl_orchestrator *o, sl_status status) {
    sl_events_ladder(o);
    sl_incidents_view(o);
    return sl_steps_result(o, status);
}

sl_status sl_orchestrator_observe(sl_orchestrator *o, const sl_orchestrator_iteration *it) {
    SL_TRY(check_iteration(o, it));
    SL_TRY(sl_events_reserve(o));
    SL_TRY(sl_recording_observe(o->recording, o->problem, it));
    if (o->unknown)
        return sl_unknown_observe(o, it);
    int again = o->observed && it->iteration == o->iteration;
    o->iteration = it->iteration;
    o->now = it->now;
    if (again)
        return SL_OK;
    o->observed = 1;
    if (o->improve && !o->series.rows && o->config.can & 1u << SL_STRATEGY_SCHEDULE)
        SL_TRY(sl_plans_rest(o)); /* a better plan than the given one for the given times */
    SL_TRY(add_row(o, it));
    sl_status status = o->series.learnt ? SL_OK : sl_history_learn(&o->series);
    SL_THEN(status, think(o));
    SL_THEN(status, name(o));
    SL_THEN(status, learn(o));
    if (status != SL_OK) /* incomplete, it does not count as healthy */
        sl_history_row(&o->series, o->series.rows - 1)->slow = 1;
    return result_of(o, status);
}

/* ---- simulations ---- */

enum { SETTLED = 16 }; /* identical rows after which only time changes */

static int is_settled(const sl_orchestrator *o) {
    const sl_history *s = &o->series;
    if (s->rows - s->quiet < SETTLED || s->rows - s->since < SETTLED || s->rows < SETTLED)
        return 0;
    for (int i = s->rows - SETTLED; i < s->rows; i++)
        if (s->row[i % SL_ROWS].version != s->row[(s->rows - 1) % SL_ROWS].version ||
            s->row[i % SL_ROWS].time != s->row[(s->rows - 1) % SL_ROWS].time)
            return 0;
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].streak < SETTLED + o->config.hold)
            return 0;
    return 1;
}

int sl_orchestrator_idle(const sl_orchestrator *o, sl_time each) {
    if (o->unknown)
        return 0;
    int most = INT_MAX, waits = sl_plans_wait(o);
    if (o->doing.given || o->doing.action.id || o->fresh || o->log.event_first < o->log.event_count ||
        !is_settled(o))
        return 0;
    for (int r = 0; r < o->config.job.replicas && rests(o); r++)
        if (o->side[r].running != o->side[r].first || (o->improve && sl_plans_may_refit(o, r)))
            return 0;
    if (waits >= 0)
        most = waits > 1 ? waits - 1 : 0;
    for (int r = 0; r < o->config.job.replicas && o->case_count; r++) {
        int left = o->config.dwell + 2 * o->config.hold - (o->iteration - o->side[r].last_swap);
        if (left > 0)
            most = 0; /* plans refused because of dwell are asked for again */
    }
    sl_time due = o->ladder ? sl_ladder_due(o->ladder) : SL_TIME_NEVER;
    if (due == SL_TIME_NEVER || each <= 0)
        return most;
    sl_time left = due > o->now ? (due - o->now) / each : 0;
    left = left > 1 ? left - 1 : 0;
    return left < most ? (int)left : most;
}

sl_status sl_orchestrator_skip(sl_orchestrator *o, int iterations, sl_time now) {
    int most = sl_orchestrator_idle(o, iterations > 0 ? (now - o->now) / iterations : 0);
    if (iterations < 0 || now < o->now || iterations > most)
        return sl_error(SL_EINVAL, "%d iterations are skipped until %.3f ms; at most %d can be", iterations,
                        sl_to_ms(now), most);
    o->iteration += iterations;
    o->now = now;
    return sl_recording_call(o->recording, SL_CALL_SKIP,
                             (sl_recorded_values){.iterations = iterations, .now = now});
}

/* ---- events and actions ---- */

int sl_orchestrator_event(sl_orchestrator *o, sl_event *event) {
    if (o->log.event_first == o->log.event_count)
        return 0;
    *event = o->log.events[o->log.event_first++];
    return 1;
}

/* The reason for a plan that has waited for its time: the slow components of the replica. */
static void name_incidents(sl_orchestrator *o, int replica) {
    const sl_side *side = &o->side[replica];
    sl_orchestrator_action *a = &o->doing.action;
    a->loss = a->expected = 0;
    a->count = 0;
    for (int i = 0; i < o->case_count && !side->refits; i++) {
        const sl_case *c = &o->cases[i];
        if (c->announced < 0 || !c->seen || (c->replica >= 0 && c->replica != replica))
            continue;
        o->doing.ids[a->count++] = c->view.id;
        a->loss += c->view.loss;
    }
    a->incidents = o->doing.ids;
    if (side->refits)
        a->loss = 1 - (double)side->best / (double)side->predicted;
    a->expected = side->refits ? 0 : fmax(0, a->loss - side->gain);
}

static void give_plan(sl_orchestrator *o, int replica) {
    sl_side *side = &o->side[replica];
    int undo = side->wanted == side->first && !side->refits, all = sl_plans_all_want(o);
    o->doing.action.id = ++o->doing.next_id;
    o->doing.action.what = SL_DO_PLAN;
    o->doing.action.strategy = SL_STRATEGY_SCHEDULE;
    o->doing.action.undo = undo;
    o->doing.action.replica = all ? -1 : replica;
    o->doing.action.plan = &side->wanted->plan;
    o->doing.action.cost = side->cost;
    if (!o->doing.action.count)
        name_incidents(o, replica);
    sl_events_swap(o, o->doing.action.replica, undo);
}

static int next(sl_orchestrator *o, sl_orchestrator_action *action) {
    if (o->doing.given)
        return 0;
    int plans = o->doing.strategy < 0 || o->doing.action.what == SL_DO_PLAN,
        due = plans ? sl_plans_due(o) : -1;
    if (due >= 0 && (!o->doing.action.id || o->doing.action.what == SL_DO_PLAN)) {
        if (!o->doing.action.id)
            o->doing.action = (sl_orchestrator_action){0};
        give_plan(o, due);
    } else if (!o->doing.action.id) {
        return 0;
    } else if ((o->doing.action.what == SL_DO_PATH && o->iteration - o->doing.last_path < o->config.hold) ||
               (o->doing.action.what == SL_DO_LAYOUT && o->doing.action.undo &&
                o->iteration - o->doing.last_layout < o->config.hold)) {
        return 0; /* two changes are at least `hold` iterations apart */
    }
    o->doing.action.layout = o->doing.next;
    o->doing.action.plans = o->doing.plans;
    for (int r = 0; r < o->config.job.replicas && o->doing.action.what == SL_DO_LAYOUT; r++)
        o->doing.plans[r] = &(o->side[r].wanted ? o->side[r].wanted : o->side[r].running)->plan;
    if (o->doing.action.what == SL_DO_PATH)
        sl_events_path(o, o->doing.next.delegates);
    o->doing.given = 1;
    *action = o->doing.action;
    return 1;
}

int sl_orchestrator_next(sl_orchestrator *o, sl_orchestrator_action *action) {
    int asks = o->unknown ? sl_unknown_next(o, action) : next(o, action);
    sl_status status =
        asks ? sl_recording_call(o->recording, SL_CALL_NEXT,
                                 (sl_recorded_values){.id = action->id, .what = (int)action->what})
             : SL_OK;
    o->failed = status == SL_OK ? o->failed : status;
    return asks;
}

/* Iterations before and after a change are not compared. */
static void measure_again(sl_orchestrator *o) {
    o->series.quiet = o->series.rows;
    o->fresh = 1;
    sl_naming_changed(&o->naming, &o->series);
}

static void plan_runs(sl_orchestrator *o, int replica, sl_time took) {
    sl_side *side = &o->side[replica];
    sl_plans_drop(&side->running);
    side->running = side->wanted;
    side->wanted = NULL;
    if (side->refits)
        sl_plans_replace(&side->first, side->running);
    if (!side->refits || !o->improve) /* a slow component need not wait because of a better first plan */
        side->last_swap = o->iteration;
    side->refits = 0;
    side->cost = took;
}

/* Of one replica or, with -1, of all. */
static sl_status plans_run(sl_orchestrator *o, int replica, sl_time took) {
    int from = replica < 0 ? 0 : replica, to = replica < 0 ? o->config.job.replicas : replica + 1,
        first = o->side[from].refits && o->improve;
    for (int r = from; r < to; r++)
        plan_runs(o, r, took);
    measure_again(o);
    return first ? sl_losses_rebase(o) : SL_OK;
}

/* Every process runs the plans for the new layout, and returns to them. */
static void layout_runs(sl_orchestrator *o) {
    sl_cases_move(o, &o->doing.next);
    memcpy(o->layout.process, o->doing.next.process, (size_t)o->processes * sizeof *o->layout.process);
    memcpy(o->layout.split, o->doing.next.split, (size_t)o->config.job.replicas * sizeof *o->layout.split);
    for (int r = 0; r < o->config.job.replicas; r++) {
        sl_side *side = &o->side[r];
        sl_plans_drop(&side->candidate);
        sl_plans_drop(&side->offered);
        if (!side->wanted)
            continue;
        sl_plans_drop(&side->running);
        sl_plans_drop(&side->first);
        side->first = sl_plans_keep(side->wanted);
        side->running = side->wanted;
        side->wanted = NULL;
    }
    for (int stage = 0; stage < o->problem[0]->stages; stage++)
        o->network.looked[stage] = 0;
    o->naming.announced.count = 0;
    sl_history_moved(&o->series);
    measure_again(o);
}

sl_status sl_orchestrator_moved(sl_orchestrator *o, const sl_job_layout *layout, const sl_plan *const *plan) {
    int sum = 0, was = 0;
    for (int r = 0; r < o->config.job.replicas; r++) {
        sum += layout->split[r];
        was += o->layout.split[r];
    }
    if (sum != was || o->doing.given)
        return sl_error(SL_EINVAL, "a layout of %d microbatches, the job has %d (or an action is under way)",
                        sum, was);
    SL_TRY(sl_recording_moved(o->recording, layout, plan));
    memcpy(o->doing.next.process, layout->process, (size_t)o->processes * sizeof *layout->process);
    memcpy(o->doing.next.split, layout->split, (size_t)o->config.job.replicas * sizeof *layout->split);
    layout_runs(o);
    sl_strategies_forget(o);
    return sl_plans_set(o, plan);
}

static sl_status carried_out(sl_orchestrator *o, sl_outcome outcome, sl_time took) {
    sl_orchestrator_action a = o->doing.action;
    int done = outcome == SL_OUTCOME_DONE, ready;
    o->doing.given = 0;
    o->doing.action.id = 0;
    switch (a.what) {
    case SL_DO_PLAN:
        if (done)
            SL_TRY(plans_run(o, a.replica, took));
        else if (outcome == SL_OUTCOME_REFUSED || a.replica < 0)
            drop_wanted(o);
        else
            drop_plan(&o->side[a.replica]);
        return sl_plans_due(o) >= 0 ? SL_OK : end_of_strategy(o, took, done);
    case SL_DO_PATH:
        if (done) {
            o->layout.delegates = o->doing.next.delegates;
            o->doing.last_path = o->iteration;
            measure_again(o);
        }
        break;
    case SL_DO_LAYOUT:
        o->doing.last_layout = o->iteration;
        if (done)
            layout_runs(o);
        else
            drop_wanted(o);
        break;
    case SL_DO_NETWORK:
        SL_TRY(sl_incidents_see(o, &ready));
        return ready ? decide(o) : SL_OK;
    default:
        break;
    }
    return end_of_strategy(o, took, done);
}

sl_status sl_orchestrator_carried_out(sl_orchestrator *o, int id, sl_time now, sl_outcome outcome,
                                      sl_time took) {
    int mine = !o->unknown && o->doing.given && id == o->doing.action.id;
    if (mine && (now < o->now || took < 0))
        return sl_error(SL_EINVAL, "an action took %.3f ms and ended %.3f ms ago", sl_to_ms(took),
                        sl_to_ms(o->now - now));
    if (mine || o->unknown)
        SL_TRY(sl_events_reserve(o));
    SL_TRY(
        sl_recording_call(o->recording, SL_CALL_CARRIED_OUT,
                          (sl_recorded_values){.id = id, .now = now, .outcome = (int)outcome, .took = took}));
    if (o->unknown)
        return sl_unknown_carried_out(o, id, now, outcome, took);
    if (!mine)
        return SL_OK;
    o->now = now;
    if (outcome == SL_OUTCOME_REFUSED)
        o->strategies.refused |= 1u << o->doing.action.strategy;
    sl_status status = result_of(o, carried_out(o, outcome, took));
    return status == SL_ENOMEM ? SL_OK : status; /* the layout is changed; its plans are asked for again */
}
