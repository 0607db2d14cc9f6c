/* Opening and closing; other inputs and queries. */
#include "adapt/orchestrator/orchestrator_inside.h"
#include "base/memory.h"

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
            return sl_error(SL_EINVAL, "the cost of '%s' must not be negative", sl_strategy_words[s]);
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
    SL_TRY(sl_alloc(&o->losses.healthy, (size_t)replicas, sizeof(sl_problem *)));
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
        o->even[r] = c->split     ? c->split[r]
                     : c->problem ? c->problem[r]->microbatches
                                  : c->unknown->microbatches;
    sl_job_layout *const all[] = {&o->layout, &o->doing.next, &o->strategies.tried, &o->strategies.divided,
                                  &o->strategies.placed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        SL_TRY(sl_job_layout_make(&o->config.job, o->even, all[i]));
    o->layout.delegates = c->delegates;
    return SL_OK;
}

static sl_status open_all(sl_orchestrator *o, const sl_orchestrator_config *c) {
    size_t stages = (size_t)c->problem[0]->stages;
    double *sum = NULL;
    snprintf(o->schedule, sizeof o->schedule, "%s", c->job.schedule ? c->job.schedule : "auto");
    o->config.job.schedule = o->schedule;
    if (c->job.sum) {
        SL_TRY(sl_alloc(&sum, stages, sizeof *sum));
        memcpy(sum, c->job.sum, stages * sizeof *sum);
        o->config.job.sum = sum;
    }
    SL_TRY(sl_alloc(&o->network.looked, stages, sizeof *o->network.looked));
    SL_TRY(sl_alloc(&o->cases, SL_CASES_MAX, sizeof *o->cases));
    SL_TRY(sl_alloc(&o->view, SL_CASES_MAX, sizeof *o->view));
    SL_TRY(sl_alloc(&o->numbers.shares, (size_t)o->processes, sizeof *o->numbers.shares));
    SL_TRY(sl_alloc(&o->losses.part, 2 * SL_CASES_MAX, sizeof *o->losses.part));
    SL_TRY(sl_alloc(&o->side, (size_t)c->job.replicas, sizeof *o->side));
    SL_TRY(sl_alloc(&o->doing.plans, (size_t)c->job.replicas, sizeof(sl_plan *)));
    SL_TRY(copy_problems(o, c));
    SL_TRY(sl_history_open(c->job.replicas, c->job.ranks, c->hold, &o->series));
    SL_TRY(sl_naming_open(&o->naming));
    if (c->paced)
        SL_TRY(sl_history_assume(&o->series, o->problem));
    return sl_plans_open(o, c);
}

sl_status sl_orchestrator_open(const sl_orchestrator_config *config, sl_orchestrator **orchestrator) {
    sl_orchestrator *o;
    sl_status status;
    *orchestrator = NULL;
    SL_TRY(check(config));
    SL_TRY(sl_alloc(&o, 1, sizeof *o));
    o->config = *config;
    o->doing.strategy = -1;
    o->iteration = -1;
    o->doing.last_path = o->doing.last_layout = -config->hold;
    o->processes = sl_job_processes(&config->job);
    o->config.job.sum = NULL;
    SL_TRY_GOTO(err_close, status, sl_recording_open(config, &o->recording));
    if (config->problem || config->host)
        SL_TRY_GOTO(err_close, status, copy_hosts(o, config));
    SL_TRY_GOTO(err_close, status, make_layouts(o, config));
    SL_TRY_GOTO(err_close, status, config->problem ? open_all(o, config) : sl_unknown_open(o, config));
    *orchestrator = o;
    return SL_OK;
err_close:
    sl_orchestrator_close(o);
    return status;
}

void sl_orchestrator_close(sl_orchestrator *o) {
    if (!o)
        return;
    sl_recording_close(o->recording);
    sl_unknown_close(o->unknown);
    sl_plans_close(o);
    sl_model_close(o->losses.model);
    sl_ladder_close(o->ladder);
    sl_naming_close(&o->naming);
    sl_history_close(&o->series);
    sl_slowness_free(&o->lately);
    sl_slowness_free(&o->last);
    sl_job_layout *const all[] = {&o->layout, &o->doing.next, &o->strategies.tried, &o->strategies.divided,
                                  &o->strategies.placed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sl_job_layout_free(all[i]);
    for (int k = 0; k < o->kinds; k++)
        sl_problem_free(&o->planned[k]);
    for (int p = 0; o->host && p < o->processes; p++)
        sl_free(o->host[p]);
    for (size_t i = 0; i < o->kept_hosts; i++)
        sl_free(o->kept_host[i]);
    void *const arrays[] = {o->planned,
                            o->problem,
                            o->losses.healthy,
                            o->doing.plans,
                            o->host,
                            o->kept_host,
                            o->even,
                            o->side,
                            o->numbers.key,
                            o->cases,
                            o->view,
                            o->losses.part,
                            o->losses.memory,
                            o->network.pair,
                            o->network.card,
                            o->numbers.shares,
                            o->network.looked,
                            o->log.events,
                            o->log.decisions.text,
                            (void *)o->config.job.sum};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        sl_free(arrays[i]);
    sl_free(o);
}

/* ---- from outside ---- */

sl_status sl_orchestrator_report_slow(sl_orchestrator *o, sl_time now, const sl_orchestrator_report *report) {
    if (!o->unknown && now < o->now)
        return sl_error(SL_EINVAL, "the time of a report goes back by %.3f ms", sl_to_ms(o->now - now));
    SL_TRY(o->unknown ? sl_unknown_report(o, report) : sl_incidents_report(o, report));
    o->now = now > o->now ? now : o->now;
    return sl_recording_report(o->recording, now, report);
}

sl_status sl_orchestrator_network(sl_orchestrator *o, sl_time now, const sl_network_measure *measure,
                                  int count) {
    if (now < o->now || count < 0)
        return sl_error(SL_EINVAL, "%d links were measured %.3f ms ago", count, sl_to_ms(o->now - now));
    for (int i = 0; i < count; i++)
        if (measure[i].from < 0 || measure[i].from >= o->processes || measure[i].to < 0 ||
            measure[i].to >= o->processes)
            return sl_error(SL_EINVAL, "a link between processes %d and %d of %d", measure[i].from,
                            measure[i].to, o->processes);
    SL_TRY(sl_pairs_take(o, measure, count));
    o->now = now;
    return sl_recording_network(o->recording, now, measure, count);
}

sl_status sl_orchestrator_estimate(sl_orchestrator *o, sl_strategy_kind strategy, sl_time cost) {
    if ((unsigned)strategy >= SL_STRATEGY_KINDS || cost < 0)
        return sl_error(SL_EINVAL, "strategy %d is estimated to cost %.3f ms", (int)strategy, sl_to_ms(cost));
    SL_TRY(sl_recording_call(o->recording, SL_CALL_ESTIMATE,
                             (sl_recorded_values){.strategy = (int)strategy, .cost = cost}));
    o->config.cost[strategy] = cost;
    return o->ladder && o->strategies.rung[strategy] >= 0
               ? sl_ladder_estimate(o->ladder, o->strategies.rung[strategy], cost)
               : SL_OK;
}

sl_status sl_orchestrator_may_leave(sl_orchestrator *o, const char *host, int may) {
    int known = 0;
    for (int p = 0; o->host && p < o->processes && !known; p++)
        known = strcmp(o->host[p], host) == 0;
    if (!known)
        return sl_error(SL_EINVAL, "no process is on host '%s'", host);
    SL_TRY(
        sl_recording_call(o->recording, SL_CALL_MAY_LEAVE, (sl_recorded_values){.text = host, .may = may}));
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

sl_status sl_orchestrator_improve(sl_orchestrator *o, long long work) {
    if (work < 0)
        return sl_error(SL_EINVAL, "work must not be negative, got %lld", work);
    o->improve = work;
    return sl_recording_call(o->recording, SL_CALL_IMPROVE, (sl_recorded_values){.work = work});
}

sl_status sl_orchestrator_keep_sums(sl_orchestrator *o, int keep) {
    o->keeps_sums = keep != 0;
    return sl_recording_call(o->recording, SL_CALL_KEEP_SUMS, (sl_recorded_values){.may = keep != 0});
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
    shared->number = ++o->numbered;
    sl_status status = sl_plan_of_order(&own, &plan->order, plan->schedule, &shared->plan);
    if (status == SL_OK && !shared->plan.memory_ok)
        status = sl_error(SL_ENONE, "the plan does not fit into the memory");
    if (status != SL_OK) {
        sl_plans_drop(&shared);
        return status;
    }
    sl_plans_drop(&o->side[replica].offered);
    o->side[replica].offered = shared;
    o->side[replica].changed = 1;
    return sl_recording_offer(o->recording, replica, plan);
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
    *time = o->side[replica].running->plan.value;
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
    if (!sl_cases_any_seen(o))
        return sl_error(SL_ENONE, "nothing is slow");
    SL_TRY(sl_history_typical(&o->series, replica, o->config.hold, problem));
    problem->microbatches = o->layout.split[replica];
    return SL_OK;
}

const sl_incident_view *sl_orchestrator_incidents(const sl_orchestrator *o, int *count) {
    if (o->unknown)
        return sl_unknown_incidents(o, count);
    *count = o->views;
    return o->view;
}

int sl_orchestrator_considered(const sl_orchestrator *o, int incident, sl_strategy_kind strategy,
                               sl_strategy_view *view) {
    sl_ladder_entry e;
    *view = (sl_strategy_view){.reason = SL_REASON_NONE};
    int known = o->unknown && sl_unknown_why_not(o, incident, strategy, view->why, sizeof view->why);
    if (!o->ladder || o->strategies.rung[strategy] < 0 ||
        !sl_ladder_considered(o->ladder, incident, o->strategies.rung[strategy], &e, &view->in_effect))
        return known;
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
        return sl_unknown_seen(o->unknown)->job->slow || (sl_unknown_incidents(o, &count), count > 0);
    if (o->sudden || o->naming.alone)
        return 1;
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].seen && o->cases[i].announced >= 0)
            return 1;
    return 0;
}

const char *sl_orchestrator_decisions(sl_orchestrator *o) {
    if (!o->log.decisions.used)
        return NULL;
    o->log.decisions.used = 0;
    return o->log.decisions.text;
}
