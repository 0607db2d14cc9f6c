#include "run/train/body.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/search/replan.h"
#include "run/arrange/departure.h"
#include "run/arrange/exchange.h"
#include "run/arrange/network_profile.h"
#include "run/arrange/path.h"
#include "run/arrange/planning.h"
#include "run/arrange/rank_open.h"
#include "run/arrange/rearrange.h"
#include "run/train/searcher.h"

#include <stdio.h>
#include <string.h>

#define AT_ONCE (5 * SL_MS)   /* of another schedule or delegates, until one was measured */
#define FIRST_RATE 1e9        /* bytes/s of an exchange of positions */
#define EFFORT 0.3            /* s of a search for positions */
#define SEARCH SL_REPLAN_WORK /* ops replayed by the search for a plan between two iterations */
#define SEARCH_EVERY 20       /* iterations between two questions to the longer search */

typedef struct sl_body {
    sl_searcher *searcher; /* searches longer for plans */
    int searched;          /* iteration of the last question */
    sl_time opened;        /* time to open everything at the start */
    sl_time swap_cost[64]; /* of the last changes of plans */
    int swaps;
} sl_body;

/* ---- opening ---- */

static unsigned can(const sl_trainer *t) {
    const sl_run *run = t->run;
    unsigned bits = run->adaptation.strategies;
    int grows =
        run->transport == SL_RUN_AUTO || (run->transport == SL_RUN_DELEGATED && run->network.queues == 0);
    if (!grows)
        bits &= ~(1u << SL_STRATEGY_DELEGATE);
    if (!sl_departure_is_possible(t))
        bits &= ~(1u << SL_STRATEGY_RESTART);
    if (t->run->parallel.placement != SL_LINEAR) /* ranks of several stages do not change positions */
        bits &= ~(1u << SL_STRATEGY_TOPOLOGY);
    return bits;
}

/* A rearrangement repeats the start of the run: groups, plans, stages and connections are opened. */
static sl_time thought(const sl_leader *l, double seconds) {
    return seconds > 0 ? sl_from_ms(1e3 * seconds) : l->body->opened;
}

/* The largest stage's weights and moments cross the network once, in both directions at the same time. */
static sl_time exchange_cost(const sl_leader *l) {
    const sl_trainer *t = l->t;
    size_t most = 0;
    for (int stage = 0; stage < t->run->parallel.stages; stage++) {
        size_t elements = sl_binding_elements(t->run, stage);
        most = elements > most ? elements : most;
    }
    double bytes = 3.0 * sizeof(float) * (double)most * (t->run->parallel.stages / t->ranks);
    return thought(l, t->run->adaptation.topology_s) + sl_from_ms(1e3 * bytes / FIRST_RATE);
}

static void record(void *journal, const char *line) {
    sl_journal_measurement(journal, line);
}

static sl_status open_job(sl_leader *l, const sl_problem **problem, const sl_plan **first, const char **host,
                          double *sum) {
    const sl_trainer *t = l->t;
    const sl_run *run = t->run;
    const sl_replica_plan *plans = sl_planning_plans(t);
    sl_orchestrator_config c = sl_orchestrator_defaults();
    int by_file = strcmp(plans[0].plan.schedule, "file") == 0;
    for (int r = 0; r < run->parallel.data; r++) {
        problem[r] = &plans[r].problem;
        first[r] = &plans[r].plan;
    }
    for (int w = 0; w < t->world; w++)
        host[w] = sl_departure_host(t, w);
    for (int stage = 0; stage < t->run->parallel.stages; stage++)
        sum[stage] = sizeof(float) * (double)sl_binding_elements(run, stage);
    c.job = (sl_job){.replicas = run->parallel.data,
                     .ranks = t->ranks,
                     .tensor = run->parallel.tensor,
                     .message = t->message_bytes,
                     .sum = sum,
                     .schedule = by_file ? "auto" : run->schedule,
                     .effort = EFFORT,
                     .seed = 1};
    c.split = run->batch.split;
    c.problem = problem;
    c.first = first;
    c.host = host;
    c.can = can(t);
    const sl_time cost[SL_STRATEGY_KINDS] = {AT_ONCE, AT_ONCE, thought(l, run->adaptation.balance_s),
                                             exchange_cost(l), sl_from_ms(1e3 * run->adaptation.restart_s)};
    memcpy(c.cost, cost, sizeof cost);
    memcpy(c.undo, cost, sizeof cost);
    c.undo[SL_STRATEGY_RESTART] = 0;
    c.looks = run->parallel.data > 1 && (c.can >> SL_STRATEGY_BALANCE) != 0 && run->adapt;
    c.hold = run->adaptation.hold;
    c.dwell = run->adaptation.dwell;
    c.gain = run->adaptation.gain;
    c.work = SEARCH;
    c.queues = run->network.queues;
    c.delegates = sl_path_delegates(t);
    c.paced = sl_leader_is_paced(l);
    c.frozen = !run->adapt;
    c.record.line = run->adaptation.record ? record : NULL;
    c.record.context = sl_run_log_journal(t->log);
    return sl_orchestrator_open(&c, &l->orchestrator);
}

sl_status sl_body_open(sl_leader *l, sl_time opened) {
    const sl_trainer *t = l->t;
    size_t replicas = (size_t)t->run->parallel.data, world = (size_t)t->world;
    const void **pointers;
    double *sum = NULL;
    SL_TRY(sl_alloc(&l->body, 1, sizeof *l->body));
    l->body->opened = opened;
    l->body->searched = -SEARCH_EVERY;
    SL_TRY(sl_searcher_open(&l->body->searcher));
    SL_TRY(sl_alloc(&pointers, 2 * replicas + world, sizeof(void *)));
    sl_status status = sl_alloc(&sum, (size_t)t->run->parallel.stages, sizeof *sum);
    SL_THEN(status, open_job(l, (const sl_problem **)(void *)pointers,
                             (const sl_plan **)(void *)(pointers + replicas),
                             (const char **)(void *)(pointers + 2 * replicas), sum));
    SL_FREE(sum, pointers);
    return status;
}

void sl_body_close(sl_leader *l) {
    if (l->body)
        sl_searcher_close(l->body->searcher);
    sl_orchestrator_close(l->orchestrator);
    sl_free(l->body);
}

int sl_body_swaps(const sl_leader *l, sl_time *cost) {
    const sl_body *b = l->body;
    sl_time sorted[64];
    memcpy(sorted, b->swap_cost, sizeof sorted);
    *cost = b->swaps ? sl_median(sorted, b->swaps < 64 ? b->swaps : 64) : -1;
    return b->swaps;
}

/* ---- its output ---- */

static sl_status write_all(const sl_leader *l) {
    sl_run_log *log = l->t->log;
    sl_event event;
    while (sl_orchestrator_event(l->orchestrator, &event))
        SL_TRY(sl_run_log_add(log, &event, event.has_replica ? event.replica : -1));
    const char *decisions = sl_orchestrator_decisions(l->orchestrator);
    if (decisions)
        sl_journal_decision(sl_run_log_journal(log), decisions);
    return SL_OK;
}

static sl_time now(const sl_trainer *t) {
    return sl_run_log_time(t->log, sl_clock_now(t->clock));
}

/* Bound of the difference of any two ranks' clocks. */
static sl_time clock_error(const sl_trainer *t) {
    sl_time worst = 0, second = 0;
    for (int w = 0; w < t->world; w++) {
        sl_time error = t->clocks[w].error;
        second = error > worst ? worst : error > second ? error : second;
        worst = error > worst ? error : worst;
    }
    return worst + second;
}

/* The hosts that could be left, and the cost, change during the run. */
static sl_status report_restart(const sl_leader *l) {
    const sl_trainer *t = l->t;
    if (!(can(t) & 1u << SL_STRATEGY_RESTART))
        return SL_OK;
    SL_TRY(sl_orchestrator_estimate(l->orchestrator, SL_STRATEGY_RESTART, sl_leave_cost(t)));
    for (int w = 0; w < t->world; w++) {
        const char *host = sl_departure_host(t, w);
        if (w == 0 || strcmp(host, sl_departure_host(t, w - 1)) != 0)
            SL_TRY(sl_orchestrator_may_leave(l->orchestrator, host, sl_can_leave(t, host)));
    }
    return SL_OK;
}

/* Offers the result of the longer search; it no longer fits if the layout has changed meanwhile. */
static sl_status take_search(const sl_leader *l) {
    sl_plan plan;
    int replica;
    if (!sl_searcher_take(l->body->searcher, &replica, &plan))
        return SL_OK;
    sl_status status = sl_orchestrator_offer(l->orchestrator, replica, &plan);
    sl_plan_free(&plan);
    return status == SL_ENOMEM ? status : SL_OK;
}

/* While something is slow, searches for the replica of the costliest incident. */
static sl_status ask_search(const sl_leader *l, int iteration) {
    const sl_trainer *t = l->t;
    sl_body *b = l->body;
    int count;
    sl_problem problem;
    const sl_incident_view *worst = sl_orchestrator_incidents(l->orchestrator, &count);
    const sl_job job = {
        .replicas = t->run->parallel.data, .ranks = t->ranks, .tensor = t->run->parallel.tensor};
    int may = t->run->adapt && (can(t) & 1u << SL_STRATEGY_SCHEDULE) && count > 0 && worst->part.a >= 0;
    if (!may || !sl_searcher_is_idle(b->searcher) || iteration - b->searched < SEARCH_EVERY)
        return SL_OK;
    const sl_job_layout *layout = sl_orchestrator_layout(l->orchestrator);
    int replica = sl_job_replica(&job, sl_job_layout_position(&job, layout, worst->part.a));
    sl_status status = sl_orchestrator_question(l->orchestrator, replica, &problem);
    if (status != SL_OK)
        return status == SL_ENONE ? SL_OK : status;
    b->searched = iteration;
    status = sl_searcher_ask(b->searcher, replica, &problem,
                             &sl_orchestrator_plan(l->orchestrator, replica)->order);
    sl_problem_free(&problem);
    return status == SL_ENOMEM ? status : SL_OK;
}

sl_status sl_body_observe(sl_leader *l, int iteration, sl_time time, sl_measured *const *measured) {
    const sl_orchestrator_iteration seen = {.iteration = iteration,
                                            .now = now(l->t),
                                            .time = time,
                                            .clock_error = clock_error(l->t),
                                            .replica = measured};
    SL_TRY(report_restart(l));
    SL_TRY(take_search(l));
    SL_TRY(sl_orchestrator_observe(l->orchestrator, &seen));
    SL_TRY(ask_search(l, iteration));
    return write_all(l);
}

/* ---- what all ranks do ---- */

/* From the rank that leads to all. */
typedef struct order {
    int32_t what; /* sl_do */
    int32_t replica, delegates, strategy;
} order;

static sl_status run_plan(sl_trainer *t, int replica, const sl_plan *plan) {
    sl_problem shape = sl_run_replica_shape(t->run, replica);
    sl_order next = {0};
    sl_status status;
    if (plan)
        SL_TRY_GOTO(out, status, sl_order_copy(&plan->order, &next));
    SL_TRY_GOTO(out, status, sl_exchange_order(t, &shape, &next));
    if (replica == t->groups.position.replica)
        SL_TRY_GOTO(out, status, sl_rank_state_run_order(t, &next));
    status = sl_group_barrier(t->groups.world);
out:
    sl_order_free(&next);
    return status;
}

static void note_swap(sl_leader *l, const sl_orchestrator_action *a, sl_time took) {
    sl_leader_replica *one = &l->replica[a->replica];
    l->body->swap_cost[l->body->swaps++ % 64] = took;
    for (int rank = 0; rank < l->t->ranks; rank++)
        if (one->peak[rank] > one->peak_before[rank])
            one->peak_before[rank] = one->peak[rank];
    one->ran = 0;
    snprintf(one->schedule, sizeof one->schedule, "%s%s", a->plan->schedule, a->undo ? "" : " (adapted)");
}

static sl_status measure_links(const sl_leader *l) {
    sl_network_measure *measure;
    int links;
    const sl_network_link *link = sl_network_profile_links(l->t, &links);
    SL_TRY(sl_alloc(&measure, (size_t)links, sizeof *measure));
    for (int i = 0; i < links; i++)
        measure[i] = (sl_network_measure){.from = link[i].from,
                                          .to = link[i].to,
                                          .latency = (double)link[i].latency,
                                          .pace = link[i].per_byte};
    sl_status status = sl_orchestrator_network(l->orchestrator, now(l->t), measure, links);
    sl_free(measure);
    return status;
}

sl_status sl_body_look(sl_trainer *t, sl_leader *l, int iteration) {
    SL_TRY(sl_network_profile_measure(t, iteration));
    return l ? measure_links(l) : SL_OK;
}

static sl_status rearrange(sl_trainer *t, sl_leader *l, int iteration, const sl_orchestrator_action *a) {
    const sl_arrangement next = {
        .home = a->layout.process, .split = a->layout.split, .plan = a->plans, .why = "decisions.txt"};
    sl_rearranged took;
    SL_TRY(sl_rearrange(t, iteration, l ? &next : NULL, &took));
    if (took.whole > 0)
        sl_leader_rearranged(l, iteration);
    return SL_OK;
}

/* Carries it out on every rank; *done and *took are set on the leader. */
static sl_status carry_out(sl_trainer *t, sl_leader *l, int iteration, const order *o,
                           const sl_orchestrator_action *a, int *done) {
    *done = 1;
    switch ((sl_do)o->what) {
    case SL_DO_PLAN:
        return run_plan(t, o->replica, l ? a->plan : NULL);
    case SL_DO_PATH:
        return sl_path_change(t, o->delegates ? o->delegates : -1);
    case SL_DO_LAYOUT:
        return rearrange(t, l, iteration + 1, a);
    case SL_DO_NETWORK:
        return sl_body_look(t, l, iteration + 1);
    case SL_DO_LEAVE:
        SL_TRY(sl_leave_hosts(t, iteration + 1, &(const char *){l ? a->host : ""}, 1,
                              "it is slow (decisions.txt)"));
        *done = t->departed;
        return SL_OK;
    case SL_DO_NOTHING:
        break;
    }
    return SL_OK;
}

/* The replica's program now belongs to the orchestrator. */
static void name_programs(sl_leader *l) {
    for (int r = 0; r < l->t->run->parallel.data; r++)
        l->replica[r].program = &sl_orchestrator_plan(l->orchestrator, r)->program;
    sl_leader_name_schedule(l);
}

static sl_status answer(sl_leader *l, const sl_orchestrator_action *a, int done, sl_time took) {
    if (a->what == SL_DO_PLAN)
        note_swap(l, a, took);
    if (a->what == SL_DO_PATH)
        took = sl_path_cost(l->t) > 0 ? sl_path_cost(l->t) : 0;
    if (a->what == SL_DO_LEAVE)
        took = done ? sl_leave_cost(l->t) : 0;
    SL_TRY(sl_orchestrator_carried_out(l->orchestrator, a->id, now(l->t),
                                       done ? SL_OUTCOME_DONE : SL_OUTCOME_FAILED, took));
    name_programs(l);
    return write_all(l);
}

sl_status sl_body_act(sl_trainer *t, sl_leader *l, int iteration) {
    for (;;) {
        sl_orchestrator_action a = {0};
        order o = {0};
        int done;
        if (l && sl_orchestrator_next(l->orchestrator, &a))
            o = (order){(int32_t)a.what, a.replica, a.layout.delegates, (int32_t)a.strategy};
        if (l)
            SL_TRY(write_all(l));
        SL_TRY(sl_group_broadcast(t->groups.world, t->leader, &o, sizeof o));
        if (o.what == SL_DO_NOTHING)
            return SL_OK;
        sl_time before = sl_clock_now(t->clock);
        SL_TRY(carry_out(t, l, iteration, &o, &a, &done));
        if (l)
            SL_TRY(answer(l, &a, done, sl_clock_now(t->clock) - before));
        if (t->departed)
            return SL_OK;
    }
}

sl_status sl_body_moved(sl_leader *l) {
    const sl_trainer *t = l->t;
    const sl_replica_plan *plans = sl_planning_plans(t);
    const sl_plan **plan;
    sl_job_layout layout = {
        .process = t->home, .split = t->run->batch.split, .delegates = sl_path_delegates(t)};
    SL_TRY(sl_alloc(&plan, (size_t)t->run->parallel.data, sizeof(sl_plan *)));
    for (int r = 0; r < t->run->parallel.data; r++)
        plan[r] = &plans[r].plan;
    sl_status status = sl_orchestrator_moved(l->orchestrator, &layout, plan);
    sl_free(plan);
    if (status == SL_OK)
        name_programs(l);
    return status;
}
