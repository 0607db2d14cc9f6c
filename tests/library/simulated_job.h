/* A job that runs somewhere else, simulated: replicas of 4 ranks and 12 microbatches with F = I = W = 10 ms,
 * 390 ms per iteration; with a link of c ms and an adapted schedule 390 + c (design.md, facts). */
#ifndef SL_TESTS_SIMULATED_JOB_H
#define SL_TESTS_SIMULATED_JOB_H

#include "library/check_library.h"

enum { MAX_REPLICAS = 2, MAX_SPANS = 600 };

typedef struct measured_replica {
    slackline_span span[MAX_SPANS];
    slackline_transfer transfer[MAX_SPANS];
    slackline_measurements given;
    int64_t time; /* of the iteration */
} measured_replica;

typedef struct simulated_job {
    int replicas;
    slackline_problem *problem, *world[MAX_REPLICAS]; /* what is expected, and what is true */
    slackline_plan *first, *running[MAX_REPLICAS];
    slackline_job shape;
    const slackline_problem *problems[MAX_REPLICAS];
    const slackline_plan *firsts[MAX_REPLICAS];
    slackline_orchestrator *orchestrator;
    measured_replica *measured; /* [MAX_REPLICAS] */
    int64_t now;
} simulated_job;

static inline slackline_plan *plan_of(const slackline_problem *problem, const char *schedule) {
    slackline_planner *planner;
    slackline_plan *plan;
    works(slackline_planner_make(&planner));
    works(slackline_planner_set_schedule(planner, schedule));
    works(slackline_planner_plan(planner, problem, &plan));
    slackline_planner_free(planner);
    return plan;
}

/* The order of a plan in another world. */
static inline slackline_plan *play_plan(const slackline_problem *world, const slackline_plan *plan) {
    slackline_plan *played;
    char *order;
    size_t size;
    works(slackline_plan_write(plan, "csv", &order, &size));
    works(slackline_simulate_csv_text(world, "order", order, size, &played));
    slackline_free(order);
    return played;
}

/* A job of replicas of `problem`, which it takes, whose orchestrator is not open yet. */
static inline void make_job_of(simulated_job *j, slackline_problem *problem, const char *schedule,
                               int replicas, unsigned can) {
    *j = (simulated_job){.replicas = replicas,
                         .problem = problem,
                         .first = plan_of(problem, schedule),
                         .measured = calloc(MAX_REPLICAS, sizeof *j->measured)};
    for (int r = 0; r < replicas; r++) {
        works(slackline_problem_copy(j->problem, &j->world[r]));
        j->running[r] = play_plan(j->problem, j->first);
        j->problems[r] = j->problem;
        j->firsts[r] = j->first;
    }
    j->shape = (slackline_job){.replicas = replicas,
                               .ranks = slackline_problem_ranks(problem),
                               .tensor = 1,
                               .problem = j->problems,
                               .first = j->firsts,
                               .can = can};
}

static inline void make_job(simulated_job *j, int replicas, unsigned can) {
    slackline_problem *problem;
    works(slackline_problem_make(SLACKLINE_LINEAR, 4, 0, 12, &problem));
    for (int stage = 0; stage < 4; stage++)
        for (int kind = SLACKLINE_F; kind <= SLACKLINE_W; kind++)
            works(slackline_problem_set_time(problem, stage, (slackline_kind)kind, 10 * ms));
    make_job_of(j, problem, "adaptra", replicas, can);
}

static inline void open_job(simulated_job *j, int replicas, unsigned can,
                            const slackline_orchestrator_options *options) {
    make_job(j, replicas, can);
    works(slackline_orchestrator_open(&j->shape, options, &j->orchestrator));
}

static inline void close_job(simulated_job *j) {
    slackline_orchestrator_close(j->orchestrator);
    for (int r = 0; r < j->replicas; r++) {
        slackline_plan_free(j->running[r]);
        slackline_problem_free(j->world[r]);
    }
    slackline_plan_free(j->first);
    slackline_problem_free(j->problem);
    free(j->measured);
}

static inline void set_delay(simulated_job *j, int replica, int64_t delay) {
    works(slackline_problem_set_link(j->world[replica], 0, 1, delay, 0));
    works(slackline_problem_set_link(j->world[replica], 1, 0, delay, 0));
}

/* A rank's ops take `percent` of what they should. */
static inline void set_speed(simulated_job *j, int replica, int rank, int percent) {
    for (int kind = SLACKLINE_F; kind <= SLACKLINE_W; kind++)
        works(slackline_problem_set_time(j->world[replica], rank, (slackline_kind)kind, percent * ms / 10));
}

/* Plays an iteration of the replica's running plan on a clock of its own, and measures it. */
static inline void play(simulated_job *j, int replica, int64_t origin) {
    measured_replica *m = &j->measured[replica];
    slackline_plan *played = play_plan(j->world[replica], j->running[replica]);
    slackline_summary summary;
    size_t spans = slackline_plan_spans(played), transfers = slackline_plan_transfers(played);
    assert_true(spans <= MAX_SPANS && transfers <= MAX_SPANS);
    for (size_t i = 0; i < spans; i++) {
        m->span[i] = slackline_plan_span(played, i);
        m->span[i].start_ns += origin;
        m->span[i].end_ns += origin;
    }
    for (size_t i = 0; i < transfers; i++) {
        m->transfer[i] = slackline_plan_transfer(played, i);
        m->transfer[i].start_ns += origin;
        m->transfer[i].end_ns += origin;
        m->transfer[i].arrive_ns += origin;
    }
    slackline_plan_summary(played, &summary);
    m->time = summary.makespan_ns;
    m->given = (slackline_measurements){
        .span = m->span, .spans = spans, .transfer = m->transfer, .transfers = transfers};
    slackline_plan_free(played);
}

/* Plays an iteration of all replicas; into *i what is observed of it. */
static inline void play_all(simulated_job *j, int iteration, slackline_measurements *given,
                            slackline_iteration *i) {
    int64_t time = 0;
    for (int r = 0; r < j->replicas; r++) {
        play(j, r, j->now);
        given[r] = j->measured[r].given;
        time = j->measured[r].time > time ? j->measured[r].time : time;
    }
    j->now += time;
    *i = (slackline_iteration){.iteration = iteration, .now_ns = j->now, .time_ns = time, .replica = given};
}

static inline void observe_iteration(simulated_job *j, int iteration) {
    slackline_measurements given[MAX_REPLICAS];
    slackline_iteration i;
    play_all(j, iteration, given, &i);
    works(slackline_orchestrator_observe(j->orchestrator, &i));
}

#endif
