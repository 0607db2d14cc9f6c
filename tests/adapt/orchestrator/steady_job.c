#include "adapt/orchestrator/steady_job.h"

#include "plan/timing/objective.h"
#include "plan/timing/replay.h"

static void start(steady_job *j) {
    const sl_problem *problem[REPLICAS] = {&j->healthy, &j->healthy};
    const sl_plan *first[REPLICAS] = {&j->first, &j->first};
    j->config.problem = problem;
    j->config.first = first;
    assert_ok(sl_orchestrator_open(&j->config, &j->orchestrator));
}

/* Not started: what is particular about it comes between. */
void make_job(steady_job *j, int replicas) {
    *j = (steady_job){.replicas = replicas, .config = sl_orchestrator_defaults()};
    assert_ok(sl_problem_make(RANKS, RANKS, 12, &j->healthy));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        for (int stage = 0; stage < RANKS; stage++)
            j->healthy.time[kind][stage] = (kind == SL_B ? 20 : 10) * SL_MS;
    j->config.job.replicas = replicas;
    j->config.job.ranks = RANKS;
    j->config.job.schedule = "adaptra";
    j->config.hold = HOLD;
    j->config.dwell = DWELL;
    j->config.can = SCHEDULE;
}

void plan_and_start(steady_job *j, const char *family) {
    for (int r = 0; r < j->replicas; r++)
        assert_ok(sl_problem_copy(&j->healthy, &j->now[r]));
    assert_ok(sl_plan_make(&j->healthy, family, &j->first));
    start(j);
}

void open_job(steady_job *j, unsigned can) {
    make_job(j, 1);
    j->config.can = can;
    plan_and_start(j, "adaptra");
}

void close_job(steady_job *j) {
    sl_orchestrator_close(j->orchestrator);
    sl_plan_free(&j->first);
    sl_problem_free(&j->healthy);
    for (int r = 0; r < j->replicas; r++)
        sl_problem_free(&j->now[r]);
}

void set_delay(steady_job *j, double ms) {
    j->now[0].link[0 * RANKS + 1].latency = j->now[0].link[1 * RANKS + 0].latency = sl_from_ms(ms);
}

void make_rank_slow(sl_problem *p, int stage, int percent) {
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        p->time[kind][stage] = p->time[kind][stage] * percent / 100;
}

sl_time time_on(const sl_problem *p, const sl_plan *plan, int delegates) {
    sl_timeline t;
    sl_time takes;
    sl_problem own = *p;
    own.communication = delegates ? SL_DECOUPLED : p->communication;
    assert_ok(sl_replay(&own, &plan->program, own.communication, own.queue, &t));
    assert_ok(sl_objective_value(&own, &plan->program, &t, &takes));
    sl_timeline_free(&t);
    return takes;
}

static void act(steady_job *j) {
    sl_orchestrator_action a;
    while (sl_orchestrator_next(j->orchestrator, &a)) {
        if (a.what == SL_DO_PLAN) {
            *(a.undo ? &j->back : &j->swap) += 1;
            j->best = a.plan->value;
            j->gain = a.loss - a.expected;
            j->for_all = a.replica < 0;
            j->ends_alike = sl_order_ends_alike(&a.plan->order, &j->first.order);
            snprintf(j->family, sizeof j->family, "%s", a.plan->schedule);
            j->first_again = sl_order_equal(&a.plan->order, &j->first.order);
            j->asked = a.plan;
            if (j->look)
                j->looked = j->look(j);
        } else if (a.what == SL_DO_PATH) {
            j->delegates = a.layout.delegates ? a.layout.delegates : -1;
        }
        assert_ok(sl_orchestrator_carried_out(j->orchestrator, a.id, j->clock += 5 * SL_MS, SL_OUTCOME_DONE,
                                              5 * SL_MS));
    }
}

static sl_status measure(steady_job *j) {
    sl_measured *measured[REPLICAS] = {NULL};
    int delegates = sl_orchestrator_layout(j->orchestrator)->delegates;
    j->takes = 0;
    for (int r = 0; r < j->replicas; r++) {
        sl_time takes = time_on(&j->now[r], sl_orchestrator_plan(j->orchestrator, r), delegates);
        j->takes = takes > j->takes ? takes : j->takes;
        assert_ok(sl_measured_of_problem(&j->now[r], &measured[r]));
    }
    j->clock += j->takes;
    sl_status status = sl_orchestrator_observe(
        j->orchestrator,
        &(sl_orchestrator_iteration){
            .iteration = j->iteration++, .now = j->clock, .time = j->takes, .replica = measured});
    for (int r = 0; r < j->replicas; r++)
        sl_measured_drop(measured[r]);
    return status;
}

void observe(steady_job *j, int iterations) {
    for (int i = 0; i < iterations; i++) {
        j->events = j->swap = j->back = j->delegates = 0;
        assert_ok(measure(j));
        act(j);
        while (j->events < EVENTS && sl_orchestrator_event(j->orchestrator, &j->event[j->events]))
            j->events++;
    }
}

const sl_event *event_of(const steady_job *j, sl_event_kind kind) {
    for (int i = 0; i < j->events; i++)
        if (j->event[i].kind == kind)
            return &j->event[i];
    return NULL;
}

int changes(const steady_job *j) {
    return j->swap || j->back || j->delegates;
}
