#include "adapt/orchestrator/orchestrator_inside.h"
#include "base/memory.h"

#include <limits.h>
#include <math.h>
#include <string.h>

sl_orchestrator_config sl_orchestrator_defaults(void) {
    return (sl_orchestrator_config){
        .job = {.replicas = 1, .ranks = 1, .tensor = 1, .schedule = "auto", .effort = 0.3, .seed = 1},
        .cost = {5 * SL_MS, 5 * SL_MS, SL_SECOND, 30 * SL_SECOND, 600 * SL_SECOND},
        .undo = {5 * SL_MS, 5 * SL_MS, SL_SECOND, 30 * SL_SECOND, 0},
        .hold = 5,
        .dwell = 20,
        .gain = 0.02};
}

/* ---- opening ---- */

static sl_status check(const sl_orchestrator_config *c) {
    const sl_job *job = &c->job;
    if (job->replicas < 1 || job->ranks < 1 || job->tensor < 1)
        return sl_error(SL_EINVAL, "a job of %d replicas, %d ranks and %d tensor ranks", job->replicas,
                        job->ranks, job->tensor);
    if (c->hold < 1 || c->hold > SL_HEALTHY_ROWS)
        return sl_error(SL_EINVAL, "hold must be from 1 to %d, got %d", SL_HEALTHY_ROWS, c->hold);
    if (c->dwell < 1)
        return sl_error(SL_EINVAL, "dwell must be at least 1, got %d", c->dwell);
    if (!(c->gain >= 0 && c->gain <= 1))
        return sl_error(SL_EINVAL, "gain must be from 0 to 1, got %g", c->gain);
    for (int s = 0; s < SL_STRATEGY_KINDS; s++)
        if (c->cost[s] < 0 || c->undo[s] < 0)
            return sl_error(SL_EINVAL, "%s cannot cost less than nothing", sl_strategy_words[s]);
    if (!c->problem && c->unknown)
        return SL_OK;
    if (!c->problem || !c->first)
        return sl_error(SL_EINVAL, "problems and first plans of the replicas are needed");
    for (int r = 0; r < job->replicas; r++)
        if (!c->problem[r] || !c->first[r] || c->problem[r]->ranks != job->ranks ||
            c->problem[r]->stages != c->problem[0]->stages)
            return sl_error(SL_EINVAL, "replica %d has no problem or plan of %d ranks", r, job->ranks);
    return SL_OK;
}

static sl_status copy_problems(sl_orchestrator *o, const sl_orchestrator_config *c) {
    int replicas = c->job.replicas;
    SL_TRY(sl_alloc(&o->planned, (size_t)replicas, sizeof *o->planned));
    SL_TRY(sl_alloc(&o->problem, (size_t)replicas, sizeof(sl_problem *)));
    SL_TRY(sl_alloc(&o->healthy, (size_t)replicas, sizeof(sl_problem *)));
    for (int r = 0; r < replicas; r++) {
        if (r > 0 && c->problem[r] == c->problem[r - 1]) {
            o->problem[r] = o->problem[r - 1];
            continue;
        }
        SL_TRY(sl_problem_copy(c->problem[r], &o->planned[o->kinds]));
        o->problem[r] = &o->planned[o->kinds++];
    }
    return SL_OK;
}

static sl_status copy_hosts(sl_orchestrator *o, const sl_orchestrator_config *c) {
    SL_TRY(sl_alloc(&o->host, (size_t)o->processes, sizeof(char *)));
    for (int p = 0; p < o->processes; p++) {
        char name[32];
        snprintf(name, sizeof name, "%d", p);
        SL_TRY(sl_copy_text(&o->host[p], c->host ? c->host[p] : name));
    }
    return SL_OK;
}

static sl_status make_layouts(sl_orchestrator *o, const sl_orchestrator_config *c) {
    int replicas = c->job.replicas;
    SL_TRY(sl_alloc(&o->even, (size_t)replicas, sizeof *o->even));
    for (int r = 0; r < replicas; r++)
        o->even[r] = c->split ? c->split[r] : c->problem[r]->microbatches;
    sl_job_layout *const all[] = {&o->layout, &o->next, &o->tried, &o->divided, &o->placed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        SL_TRY(sl_job_layout_make(&o->config.job, o->even, all[i]));
    o->layout.delegates = c->delegates;
    return SL_OK;
}

static sl_status open_all(sl_orchestrator *o, const sl_orchestrator_config *c) {
    size_t stages = (size_t)c->problem[0]->stages;
    double *sum = NULL;
    o->processes = sl_job_processes(&c->job);
    snprintf(o->schedule, sizeof o->schedule, "%s", c->job.schedule ? c->job.schedule : "auto");
    o->config.job.schedule = o->schedule;
    o->config.job.sum = NULL;
    if (c->job.sum) {
        SL_TRY(sl_alloc(&sum, stages, sizeof *sum));
        memcpy(sum, c->job.sum, stages * sizeof *sum);
        o->config.job.sum = sum;
    }
    SL_TRY(sl_alloc(&o->looked, stages, sizeof *o->looked));
    SL_TRY(sl_alloc(&o->cases, SL_CASES_MOST, sizeof *o->cases));
    SL_TRY(sl_alloc(&o->view, SL_CASES_MOST, sizeof *o->view));
    SL_TRY(sl_alloc(&o->part, 2 * SL_CASES_MOST, sizeof *o->part));
    SL_TRY(sl_alloc(&o->side, (size_t)c->job.replicas, sizeof *o->side));
    SL_TRY(sl_alloc(&o->plans, (size_t)c->job.replicas, sizeof(sl_plan *)));
    SL_TRY(copy_problems(o, c));
    SL_TRY(copy_hosts(o, c));
    SL_TRY(make_layouts(o, c));
    SL_TRY(sl_history_open(c->job.replicas, c->job.ranks, c->hold, &o->series));
    SL_TRY(sl_naming_open(&o->naming));
    if (c->paced)
        SL_TRY(sl_history_assume(&o->series, o->problem));
    return sl_plans_open(o, c);
}

sl_status sl_orchestrator_open(const sl_orchestrator_config *config, sl_orchestrator **orchestrator) {
    sl_orchestrator *o;
    *orchestrator = NULL;
    SL_TRY(check(config));
    SL_TRY(sl_alloc(&o, 1, sizeof *o));
    o->config = *config;
    o->strategy = -1;
    o->iteration = -1;
    o->last_path = o->last_layout = -config->hold;
    sl_status status = sl_recording_open(config, &o->recording);
    if (status == SL_OK)
        status = config->problem ? open_all(o, config) : sl_unknown_open(config, &o->unknown);
    if (status == SL_OK)
        *orchestrator = o;
    else
        sl_orchestrator_close(o);
    return status;
}

void sl_orchestrator_close(sl_orchestrator *o) {
    if (!o)
        return;
    sl_recording_close(o->recording);
    sl_unknown_close(o->unknown);
    sl_plans_close(o);
    sl_model_close(o->model);
    sl_ladder_close(o->ladder);
    sl_naming_close(&o->naming);
    sl_history_close(&o->series);
    sl_comparison_free(&o->lately);
    sl_comparison_free(&o->last);
    sl_job_layout *const all[] = {&o->layout, &o->next, &o->tried, &o->divided, &o->placed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sl_job_layout_free(all[i]);
    for (int k = 0; k < o->kinds; k++)
        sl_problem_free(&o->planned[k]);
    for (int p = 0; o->host && p < o->processes; p++)
        sl_free(o->host[p]);
    for (size_t i = 0; i < o->kept_hosts; i++)
        sl_free(o->kept_host[i]);
    void *const arrays[] = {
        o->planned, o->problem, o->healthy, o->plans,  o->host,           o->kept_host,
        o->even,    o->side,    o->key,     o->cases,  o->view,           o->part,
        o->memory,  o->network, o->looked,  o->events, o->decisions.text, (void *)o->config.job.sum};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        sl_free(arrays[i]);
    sl_free(o);
}

/* ---- one iteration ---- */

static sl_status check_iteration(const sl_orchestrator *o, const sl_orchestrator_iteration *it) {
    if (it->now < o->now || it->iteration < o->iteration)
        return sl_error(SL_EINVAL, "iteration %d at %.3f ms comes after iteration %d at %.3f ms",
                        it->iteration, sl_to_ms(it->now), o->iteration, sl_to_ms(o->now));
    for (int r = 0; it->replica && r < o->config.job.replicas; r++) {
        const sl_problem *p = it->replica[r] ? &it->replica[r]->problem : o->problem[r];
        if (p->ranks != o->problem[r]->ranks || p->stages != o->problem[r]->stages ||
            p->placement != o->problem[r]->placement)
            return sl_error(
                SL_EINVAL, "measured are %d ranks and %d stages (%s) of replica %d, which has %d and %d (%s)",
                p->ranks, p->stages, sl_placement_name(p->placement), r, o->problem[r]->ranks,
                o->problem[r]->stages, sl_placement_name(o->problem[r]->placement));
    }
    return SL_OK;
}

static int any_seen(const sl_orchestrator *o) {
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].seen)
            return 1;
    return 0;
}

static int most_costly(const sl_orchestrator *o) {
    int most = 0;
    for (int i = 0; i < o->case_count; i++)
        most = o->cases[i].costly > most ? o->cases[i].costly : most;
    return most;
}

/* Rows in which something is slow are no measure of health; what is healthy follows the others. */
static sl_status learn(sl_orchestrator *o) {
    sl_row *row = sl_history_row(&o->series, o->series.rows - 1);
    int slow = any_seen(o) || sl_naming_is_slow(&o->naming);
    if (slow) {
        row->slow = 1;
        return SL_OK;
    }
    int rows[2], count = sl_history_collect(&o->series, 0, o->series.rows, 2, 0, rows),
                 same = count == 2 && o->series.learnt;
    for (int r = 0; r < o->config.job.replicas && same; r++)
        same = sl_history_row(&o->series, rows[0])->replica[r] == row->replica[r] && row->replica[r];
    if (same)
        return SL_OK;
    SL_TRY(sl_history_learn(&o->series));
    return sl_losses_renew(o);
}

static int changes_nothing(const sl_orchestrator *o) {
    return o->action.what == SL_DO_LAYOUT &&
           memcmp(o->next.process, o->layout.process, (size_t)o->processes * sizeof *o->layout.process) ==
               0 &&
           memcmp(o->next.split, o->layout.split, (size_t)o->config.job.replicas * sizeof *o->layout.split) ==
               0;
}

static void drop_wanted(sl_orchestrator *o) {
    for (int r = 0; r < o->config.job.replicas; r++)
        sl_plans_drop(&o->side[r].wanted);
}

static sl_status give(sl_orchestrator *o, const sl_action *said) {
    if (said->kind == SL_ACTION_APPLY &&
        o->refused & 1u << o->kind[said->strategy]) /* what it had planned before */
        return sl_ladder_ended(o->ladder, o->now, 0, 0);
    sl_status status = sl_strategies_act(o, said);
    if (status == SL_OK && changes_nothing(o)) {
        drop_wanted(o);
        o->action.what = SL_DO_PLAN; /* of which there is none */
    }
    o->strategy = said->strategy;
    o->undoes = said->kind == SL_ACTION_UNDO;
    if (status == SL_OK && (o->action.what != SL_DO_PLAN || sl_plans_due(o) >= 0))
        return SL_OK;
    /* nothing can be given out: plans wait for their time, or none fits the layout */
    o->action.id = 0;
    o->strategy = -1;
    if (status == SL_ENOMEM)
        return status;
    sl_strategies_forget(o);
    return sl_ladder_ended(o->ladder, o->now, 0, status == SL_OK);
}

/* Another split and other places are the same mechanism: what one took, the other is thought to take until it
 * was measured.
 */
static void share_cost(sl_orchestrator *o, sl_strategy_kind kind, sl_time took) {
    sl_strategy_kind other = kind == SL_STRATEGY_BALANCE ? SL_STRATEGY_TOPOLOGY : SL_STRATEGY_BALANCE;
    o->costs_known |= 1u << kind;
    if (o->rung[other] >= 0 && !(o->costs_known & 1u << other))
        (void)sl_ladder_estimate(o->ladder, o->rung[other], took);
}

static sl_status end_of_strategy(sl_orchestrator *o, sl_time took, int done) {
    if (o->strategy < 0)
        return SL_OK;
    sl_strategy_kind kind = (sl_strategy_kind)o->kind[o->strategy];
    double takes = o->known[kind] ? o->takes[kind] : 0;
    o->strategy = -1;
    sl_strategies_forget(o);
    if (done && takes > 0 && isfinite(takes))
        o->believed = takes; /* until something is measured */
    if (done && took > 0 && (kind == SL_STRATEGY_BALANCE || kind == SL_STRATEGY_TOPOLOGY))
        share_cost(o, kind, took);
    return sl_ladder_ended(o->ladder, o->now, took, done);
}

/* Nothing is slow, and no schedule is in effect for what was. */
static int rests(const sl_orchestrator *o) {
    int rung = o->ladder ? o->rung[SL_STRATEGY_SCHEDULE] : -1;
    return rung >= 0 && !any_seen(o) && !o->config.frozen && !(o->refused & 1u << SL_STRATEGY_SCHEDULE) &&
           !sl_ladder_in_effect(o->ladder, rung);
}

static sl_status decide(sl_orchestrator *o) {
    sl_action said;
    sl_strategies_forget(o);
    SL_TRY(sl_incidents_tell(o));
    if (!o->action.id || o->action.what != SL_DO_LAYOUT) /* whose plans come with it */
        sl_plans_drop_late(o);
    if (!o->given && o->strategy >= 0 && o->action.what == SL_DO_PLAN && sl_plans_due(o) < 0) {
        o->action.id = 0; /* the rest of its plans was dropped */
        SL_TRY(end_of_strategy(o, o->side[0].cost, 1));
    }
    if (o->given || o->action.id || o->strategy >= 0)
        return SL_OK;
    SL_TRY(sl_ladder_next(o->ladder, o->now, &said));
    if (said.kind == SL_ACTION_PROFILE)
        o->action = (sl_orchestrator_action){.id = ++o->next_id, .what = SL_DO_NETWORK, .replica = -1};
    if (said.kind == SL_ACTION_APPLY || said.kind == SL_ACTION_UNDO)
        return give(o, &said);
    return sl_incidents_keep(o);
}

/* While an action is under way, what is measured is neither before nor after it. */
static sl_status think(sl_orchestrator *o) {
    int ready, last = o->series.rows - 1;
    SL_TRY(sl_incidents_see(o, &ready));
    o->sudden = 0;
    if (ready && !any_seen(o)) { /* a link tells at once, by the median over its messages; ops vary */
        SL_TRY(sl_compare(&o->series, &last, 1, 0, &o->last));
        o->sudden = o->last.slow_links > 0;
    }
    if (!ready)
        return SL_OK;
    if (!o->ladder)
        SL_TRY(sl_strategies_open(o));
    if (!o->given && !o->action.id && sl_incidents_wants_network(o)) {
        o->action = (sl_orchestrator_action){.id = ++o->next_id, .what = SL_DO_NETWORK, .replica = -1};
        return SL_OK;
    }
    SL_TRY(decide(o));
    return rests(o) ? sl_plans_rest(o) : SL_OK;
}

/* What an iteration takes is not what it was at first. */
static int is_altered(const sl_orchestrator *o) {
    int altered = memcmp(o->layout.split, o->even, (size_t)o->config.job.replicas * sizeof *o->even) != 0;
    for (int r = 0; r < o->config.job.replicas && !altered; r++)
        altered = o->side[r].running != o->side[r].origin;
    return altered;
}

static sl_status name(sl_orchestrator *o) {
    sl_naming_result result;
    o->naming.altered = is_altered(o);
    SL_TRY(sl_naming_step(&o->naming, &o->series, any_seen(o), most_costly(o), &result));
    sl_events_naming(o, &result);
    return sl_losses_renew(o); /* what is healthy may have been learnt again */
}

static sl_status result_of(sl_orchestrator *o, sl_status status) {
    sl_events_ladder(o);
    sl_incidents_view(o);
    if (status == SL_OK && o->failed != SL_OK)
        status = sl_error(o->failed, "out of memory for a decision");
    o->failed = SL_OK;
    return status;
}

sl_status sl_orchestrator_observe(sl_orchestrator *o, const sl_orchestrator_iteration *it) {
    if (!o->unknown)
        SL_TRY(check_iteration(o, it));
    SL_TRY(sl_recording_observe(o->recording, o->problem, it));
    if (o->unknown)
        return sl_unknown_observe(o->unknown, it);
    int again = o->observed && it->iteration == o->iteration;
    o->iteration = it->iteration;
    o->now = it->now;
    if (again)
        return SL_OK;
    o->observed = 1;
    SL_TRY(sl_history_add(&o->series, it));
    sl_status status = o->series.learnt ? SL_OK : sl_history_learn(&o->series);
    if (status == SL_OK)
        status = think(o);
    if (status == SL_OK)
        status = name(o);
    if (status == SL_OK)
        status = learn(o);
    return result_of(o, status);
}

/* ---- simulations ---- */

enum { SETTLED = 16 }; /* rows that are alike after which nothing but time changes */

static int is_settled(const sl_orchestrator *o) {
    const sl_history *s = &o->series;
    if (s->rows - s->quiet < SETTLED || s->rows - s->since < SETTLED || s->rows < SETTLED)
        return 0;
    for (int i = s->rows - SETTLED; i < s->rows; i++)
        for (int r = 0; r < s->replicas; r++)
            if (s->row[i % SL_ROWS].replica[r] != s->row[(s->rows - 1) % SL_ROWS].replica[r] ||
                s->row[i % SL_ROWS].time != s->row[(s->rows - 1) % SL_ROWS].time)
                return 0;
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].streak < SETTLED + o->config.hold)
            return 0;
    return 1;
}

int sl_orchestrator_idle(const sl_orchestrator *o, sl_time each) {
    int most = INT_MAX, waits = sl_plans_wait(o);
    if (o->given || o->action.id || o->fresh || o->event_first < o->event_count || !is_settled(o))
        return 0;
    for (int r = 0; r < o->config.job.replicas && rests(o); r++)
        if (o->side[r].running != o->side[r].first)
            return 0;
    if (waits >= 0)
        most = waits > 1 ? waits - 1 : 0;
    for (int r = 0; r < o->config.job.replicas && o->case_count; r++) {
        int left = o->config.dwell + 2 * o->config.hold - (o->iteration - o->side[r].last_swap);
        if (left > 0)
            most = 0; /* what was refused for dwell is asked again */
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
        return sl_error(SL_EINVAL, "%d iterations are skipped until %.3f ms; %d may be", iterations,
                        sl_to_ms(now), most);
    o->iteration += iterations;
    o->now = now;
    return sl_recording_skip(o->recording, iterations, now);
}

/* ---- from outside ---- */

sl_status sl_orchestrator_report_slow(sl_orchestrator *o, sl_time now, const sl_orchestrator_report *report) {
    if (!o->unknown && now < o->now)
        return sl_error(SL_EINVAL, "the time of a report goes back by %.3f ms", sl_to_ms(o->now - now));
    o->now = now;
    SL_TRY(o->unknown ? sl_unknown_report(o->unknown, report) : sl_incidents_report(o, report));
    return sl_recording_report(o->recording, now, report);
}

sl_status sl_orchestrator_network(sl_orchestrator *o, sl_time now, const sl_network_measure *measure,
                                  int count) {
    sl_network_measure *kept;
    if (now < o->now || count < 0)
        return sl_error(SL_EINVAL, "%d links were measured %.3f ms ago", count, sl_to_ms(o->now - now));
    for (int i = 0; i < count; i++)
        if (measure[i].from < 0 || measure[i].from >= o->processes || measure[i].to < 0 ||
            measure[i].to >= o->processes)
            return sl_error(SL_EINVAL, "a link between processes %d and %d of %d", measure[i].from,
                            measure[i].to, o->processes);
    SL_TRY(sl_alloc(&kept, (size_t)count, sizeof *kept));
    if (count)
        memcpy(kept, measure, (size_t)count * sizeof *kept);
    sl_free(o->network);
    o->network = kept;
    o->networks = count;
    o->now = now;
    return sl_recording_network(o->recording, now, measure, count);
}

sl_status sl_orchestrator_estimate(sl_orchestrator *o, sl_strategy_kind strategy, sl_time cost) {
    if ((unsigned)strategy >= SL_STRATEGY_KINDS || cost < 0)
        return sl_error(SL_EINVAL, "strategy %d is estimated to cost %.3f ms", (int)strategy, sl_to_ms(cost));
    SL_TRY(sl_recording_estimate(o->recording, strategy, cost));
    o->config.cost[strategy] = cost;
    return o->ladder && o->rung[strategy] >= 0 ? sl_ladder_estimate(o->ladder, o->rung[strategy], cost)
                                               : SL_OK;
}

sl_status sl_orchestrator_may_leave(sl_orchestrator *o, const char *host, int may) {
    int known = 0;
    for (int p = 0; p < o->processes && !known; p++)
        known = strcmp(o->host[p], host) == 0;
    if (!known)
        return sl_error(SL_EINVAL, "no process is on host '%s'", host);
    SL_TRY(sl_recording_may_leave(o->recording, host, may));
    for (size_t i = 0; i < o->kept_hosts; i++)
        if (strcmp(o->kept_host[i], host) == 0) {
            if (!may)
                return SL_OK;
            sl_free(o->kept_host[i]);
            o->kept_host[i] = o->kept_host[--o->kept_hosts];
            return SL_OK;
        }
    if (may)
        return SL_OK;
    SL_TRY(sl_grow(&o->kept_host, &o->kept_room, o->kept_hosts + 1, sizeof(char *)));
    SL_TRY(sl_copy_text(&o->kept_host[o->kept_hosts], host));
    o->kept_hosts++;
    return SL_OK;
}

sl_status sl_orchestrator_offer(sl_orchestrator *o, int replica, const sl_plan *plan) {
    sl_shared_plan *shared;
    sl_problem own;
    if (o->unknown || replica < 0 || replica >= o->config.job.replicas)
        return sl_error(SL_EINVAL, "a plan for replica %d of %d", replica, o->config.job.replicas);
    own = *o->problem[replica];
    own.microbatches = o->layout.split[replica];
    SL_TRY(sl_alloc(&shared, 1, sizeof *shared));
    shared->references = 1;
    sl_status status = sl_plan_of_order(&own, &plan->order, plan->schedule, &shared->plan);
    if (status == SL_OK && !shared->plan.memory_ok)
        status = sl_error(SL_ENONE, "the plan does not fit into the memory");
    if (status != SL_OK) {
        sl_plans_drop(&shared);
        return status;
    }
    sl_plans_drop(&o->side[replica].offered);
    o->side[replica].offered = shared;
    o->side[replica].news = 1;
    return sl_recording_offer(o->recording, replica, plan);
}

/* ---- answers ---- */

int sl_orchestrator_event(sl_orchestrator *o, sl_event *event) {
    if (o->event_first == o->event_count)
        return 0;
    *event = o->events[o->event_first++];
    return 1;
}

/* What a plan that has waited for its time is for: what is slow in the replica. */
static void name_incidents(sl_orchestrator *o, int replica) {
    const sl_side *side = &o->side[replica];
    sl_orchestrator_action *a = &o->action;
    a->loss = a->expected = 0;
    a->count = 0;
    for (int i = 0; i < o->case_count && !side->refits; i++) {
        const sl_case *c = &o->cases[i];
        if (c->told < 0 || !c->seen || (c->replica >= 0 && c->replica != replica))
            continue;
        o->ids[a->count++] = c->view.id;
        a->loss += c->view.loss;
    }
    a->incidents = o->ids;
    if (side->refits)
        a->loss = 1 - (double)side->best / (double)side->predicted;
    a->expected = side->refits ? 0 : fmax(0, a->loss - side->gain);
}

static void give_plan(sl_orchestrator *o, int replica) {
    sl_side *side = &o->side[replica];
    int undo = side->wanted == side->first && !side->refits;
    o->action.id = ++o->next_id;
    o->action.what = SL_DO_PLAN;
    o->action.strategy = SL_STRATEGY_SCHEDULE;
    o->action.undo = undo;
    o->action.replica = replica;
    o->action.plan = &side->wanted->plan;
    o->action.cost = side->cost;
    if (!o->action.count)
        name_incidents(o, replica);
    sl_events_swap(o, replica, undo);
}

static int next(sl_orchestrator *o, sl_orchestrator_action *action) {
    if (o->given)
        return 0;
    int plans = o->strategy < 0 || o->action.what == SL_DO_PLAN, due = plans ? sl_plans_due(o) : -1;
    if (due >= 0 && (!o->action.id || o->action.what == SL_DO_PLAN)) {
        if (!o->action.id)
            o->action = (sl_orchestrator_action){0};
        give_plan(o, due);
    } else if (!o->action.id) {
        return 0;
    } else if ((o->action.what == SL_DO_PATH && o->iteration - o->last_path < o->config.hold) ||
               (o->action.what == SL_DO_LAYOUT && o->action.undo &&
                o->iteration - o->last_layout < o->config.hold)) {
        return 0; /* two changes are at least `hold` iterations apart */
    }
    o->action.layout = o->next;
    o->action.plans = o->plans;
    for (int r = 0; r < o->config.job.replicas && o->action.what == SL_DO_LAYOUT; r++)
        o->plans[r] = &(o->side[r].wanted ? o->side[r].wanted : o->side[r].running)->plan;
    if (o->action.what == SL_DO_PATH)
        sl_events_path(o, o->next.delegates);
    o->given = 1;
    *action = o->action;
    return 1;
}

int sl_orchestrator_next(sl_orchestrator *o, sl_orchestrator_action *action) {
    int asks = o->unknown ? sl_unknown_next(o->unknown, action) : next(o, action);
    sl_status status = asks ? sl_recording_next(o->recording, action) : SL_OK;
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
    side->refits = 0;
    side->last_swap = o->iteration;
    side->cost = took;
    measure_again(o);
}

/* Everybody runs what was planned for the new layout, and returns to it. */
static void layout_runs(sl_orchestrator *o) {
    sl_cases_move(o, &o->next);
    memcpy(o->layout.process, o->next.process, (size_t)o->processes * sizeof *o->layout.process);
    memcpy(o->layout.split, o->next.split, (size_t)o->config.job.replicas * sizeof *o->layout.split);
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
        o->looked[stage] = 0;
    sl_history_moved(&o->series);
    measure_again(o);
}

sl_status sl_orchestrator_moved(sl_orchestrator *o, const sl_job_layout *layout, const sl_plan *const *plan) {
    int sum = 0, was = 0;
    for (int r = 0; r < o->config.job.replicas; r++) {
        sum += layout->split[r];
        was += o->layout.split[r];
    }
    if (sum != was || o->given)
        return sl_error(SL_EINVAL, "a layout of %d microbatches, the job has %d (or an action is under way)",
                        sum, was);
    SL_TRY(sl_recording_moved(o->recording, layout, plan));
    memcpy(o->next.process, layout->process, (size_t)o->processes * sizeof *layout->process);
    memcpy(o->next.split, layout->split, (size_t)o->config.job.replicas * sizeof *layout->split);
    layout_runs(o);
    sl_strategies_forget(o);
    return sl_plans_set(o, plan);
}

static sl_status carried_out(sl_orchestrator *o, sl_outcome outcome, sl_time took) {
    sl_orchestrator_action a = o->action;
    int done = outcome == SL_OUTCOME_DONE, ready;
    o->given = 0;
    o->action.id = 0;
    switch (a.what) {
    case SL_DO_PLAN:
        if (done)
            plan_runs(o, a.replica, took);
        else if (outcome == SL_OUTCOME_REFUSED)
            drop_wanted(o);
        else
            sl_plans_drop(&o->side[a.replica].wanted);
        return sl_plans_due(o) >= 0 ? SL_OK : end_of_strategy(o, took, done);
    case SL_DO_PATH:
        if (done) {
            o->layout.delegates = o->next.delegates;
            o->last_path = o->iteration;
            measure_again(o);
        }
        break;
    case SL_DO_LAYOUT:
        o->last_layout = o->iteration;
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
    SL_TRY(sl_recording_carried_out(o->recording, id, now, outcome, took));
    if (o->unknown)
        return sl_unknown_carried_out(o->unknown, id, now, outcome, took);
    if (!o->given || id != o->action.id)
        return SL_OK;
    if (now < o->now || took < 0)
        return sl_error(SL_EINVAL, "an action took %.3f ms and ended %.3f ms ago", sl_to_ms(took),
                        sl_to_ms(o->now - now));
    o->now = now;
    if (outcome == SL_OUTCOME_REFUSED)
        o->refused |= 1u << o->action.strategy;
    return result_of(o, carried_out(o, outcome, took));
}

/* ---- questions ---- */

const sl_plan *sl_orchestrator_plan(const sl_orchestrator *o, int replica) {
    return o->unknown ? NULL : &o->side[replica].running->plan;
}

int sl_orchestrator_adapted(const sl_orchestrator *o, int replica) {
    return !o->unknown && o->side[replica].running != o->side[replica].first;
}

const sl_job_layout *sl_orchestrator_layout(const sl_orchestrator *o) {
    return &o->layout;
}

sl_status sl_orchestrator_forecast(sl_orchestrator *o, int replica, sl_time *time) {
    if (o->unknown)
        return sl_error(SL_ENONE, "the program's pipeline is not known");
    sl_problem usual;
    int count = sl_history_measured(&o->series, replica, o->config.hold < 3 ? o->config.hold : 3);
    *time = o->side[replica].running->plan.makespan;
    if (!count)
        return SL_OK;
    SL_TRY(sl_history_typical(&o->series, replica, count, &usual));
    sl_status status = SL_OK;
    if (usual.microbatches == o->layout.split[replica])
        status = sl_plans_time(o, o->side[replica].running, &usual, time);
    sl_problem_free(&usual);
    return status;
}

sl_status sl_orchestrator_question(sl_orchestrator *o, int replica, sl_problem *problem) {
    if (!any_seen(o))
        return sl_error(SL_ENONE, "nothing is slow");
    SL_TRY(sl_history_typical(&o->series, replica, o->config.hold, problem));
    problem->microbatches = o->layout.split[replica];
    return SL_OK;
}

const sl_incident_view *sl_orchestrator_incidents(const sl_orchestrator *o, int *count) {
    if (o->unknown)
        return sl_unknown_incidents(o->unknown, count);
    *count = o->views;
    return o->view;
}

int sl_orchestrator_considered(const sl_orchestrator *o, int incident, sl_strategy_kind strategy,
                               sl_strategy_view *view) {
    sl_ladder_entry e;
    if (o->unknown)
        return sl_unknown_considered(o->unknown, incident, strategy, view);
    *view = (sl_strategy_view){.reason = SL_REASON_NONE};
    if (!o->ladder || o->rung[strategy] < 0 ||
        !sl_ladder_considered(o->ladder, incident, o->rung[strategy], &e, &view->in_effect))
        return 0;
    view->reason = e.reason;
    view->expected = e.expected;
    view->cost = e.cost;
    view->trigger = e.trigger;
    return 1;
}

const sl_unknown_view *sl_orchestrator_unknown(const sl_orchestrator *o) {
    return o->unknown ? sl_unknown_seen(o->unknown) : NULL;
}

int sl_orchestrator_troubled(const sl_orchestrator *o) {
    int count;
    if (o->unknown)
        return sl_unknown_seen(o->unknown)->job->slow ||
               (sl_unknown_incidents(o->unknown, &count), count > 0);
    if (o->sudden)
        return 1;
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].seen && o->cases[i].told >= 0)
            return 1;
    return 0;
}

const char *sl_orchestrator_decisions(sl_orchestrator *o) {
    if (o->unknown)
        return sl_unknown_decisions(o->unknown);
    if (!o->decisions.used)
        return NULL;
    o->decisions.used = 0;
    return o->decisions.text;
}
