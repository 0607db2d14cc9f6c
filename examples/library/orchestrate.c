/* SPDX-License-Identifier: Apache-2.0 */
/* A job that adapts: after every iteration the orchestrator gets what ops and messages took, and says what to
 * do. The job is simulated: 4 ranks, 12 microbatches, and 60 ms on a link in iterations 15 to 44.
 *
 * $ cc orchestrate.c $(pkg-config --cflags --libs slackline) -o orchestrate && ./orchestrate
 * > 0: 390 ms
 * > 15: 680 ms
 * > 44: 450 ms
 * > 59: 390 ms
 *
 * The ops take 390 ms; with 60 ms on the link no schedule takes less than 450 ms. */
#include <slackline/slackline.h>
#include <stdio.h>
#include <stdlib.h>

static const int64_t ms = 1000000;

static void check(slackline_status status) {
    if (status == SLACKLINE_OK)
        return;
    fprintf(stderr, "%s\n", slackline_error());
    exit(1);
}

/* Runs a plan while the link between ranks 0 and 1 has this delay. A trainer measures by its own clock. */
static int64_t run(const slackline_plan *plan, slackline_problem *world, int64_t delay, slackline_span *span,
                   slackline_transfer *transfer) {
    slackline_plan *ran;
    slackline_summary summary;
    char *order;
    size_t size;
    check(slackline_problem_set_link(world, 0, 1, delay, 0));
    check(slackline_problem_set_link(world, 1, 0, delay, 0));
    check(slackline_plan_write(plan, "csv", &order, &size));
    check(slackline_simulate_csv_text(world, "order", order, size, &ran));
    for (size_t i = 0; i < slackline_plan_spans(ran); i++)
        span[i] = slackline_plan_span(ran, i);
    for (size_t i = 0; i < slackline_plan_transfers(ran); i++)
        transfer[i] = slackline_plan_transfer(ran, i);
    slackline_plan_summary(ran, &summary);
    slackline_free(order);
    slackline_plan_free(ran);
    return summary.makespan_ns;
}

int main(void) {
    static const char text[] = "pipeline: {ranks: 4, microbatches: 12, times_ms: {F: 10, I: 10, W: 10}}";
    static slackline_span span[4 * 3 * 12];
    static slackline_transfer transfer[2 * 3 * 12];
    slackline_measurements measured = {span, 4 * 3 * 12, NULL, transfer, 2 * 3 * 12, NULL};
    slackline_job job = {.replicas = 1, .ranks = 4, .tensor = 1, .can = SLACKLINE_CAN(SLACKLINE_SCHEDULE)};
    slackline_problem *problem;
    slackline_planner *planner;
    slackline_plan *plan;
    slackline_orchestrator *o;
    check(slackline_problem_parse("problem", text, NULL, 0, &problem));
    check(slackline_planner_make(&planner));
    check(slackline_planner_set_schedule(planner, "adaptra"));
    check(slackline_planner_plan(planner, problem, &plan));
    job.problem = (const slackline_problem *const *)&problem;
    job.first = (const slackline_plan *const *)&plan;
    check(slackline_orchestrator_open(&job, NULL, &o));
    for (int64_t i = 0, now = 0; i < 60; i++) {
        int64_t time = run(plan, problem, i >= 15 && i < 45 ? 60 * ms : 0, span, transfer);
        slackline_iteration iteration = {(int)i, now += time, time, 0, 0, &measured};
        printf("%d: %.0f ms\n", (int)i, (double)time / 1e6);
        check(slackline_orchestrator_observe(o, &iteration));
        for (slackline_event event; slackline_orchestrator_event(o, &event);)
            printf("    %s: %s %s %s\n", event.kind, event.seen, event.decided, event.why);
        for (slackline_action action; slackline_orchestrator_action(o, &action);) { /* another plan */
            slackline_plan_free(plan);
            check(slackline_orchestrator_plan(o, action.replica, &plan));
            check(slackline_orchestrator_carried_out(o, action.id, now += ms, SLACKLINE_DONE, ms));
        }
    }
    slackline_orchestrator_close(o);
    slackline_plan_free(plan);
    slackline_planner_free(planner);
    slackline_problem_free(problem);
}
