/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer that adapts: after every iteration it says how long ops and messages took, and is told when
 * another schedule pays. Here the iterations are played, with 60 ms on a link from iteration 10 to 29.
 *
 * $ cc adapt.c $(pkg-config --cflags --libs slackline) -o adapt && ./adapt
 * > iteration 10: onset: link 0-1
 * > iteration 14: from now on adaptra, 450.0 ms
 * > iteration 30: relief
 * > iteration 34: from now on adaptra, 390.0 ms
 *
 * 390 ms are the ops; with 60 ms on the link no schedule is shorter than 450 ms. */
#include <slackline/slackline.h>
#include <stdio.h>

static const int64_t ms = 1000000;

/* A trainer fills spans and transfers from its own clock and calls slackline_measure; this one knows. */
static slackline_status measure_iteration(const slackline_problem *expected, int iteration,
                                          slackline_problem **measured) {
    int64_t delay = iteration >= 10 && iteration < 30 ? 60 * ms : 0;
    slackline_status status = slackline_measure(expected, NULL, 0, NULL, 0, measured);
    if (status == SLACKLINE_OK)
        status = slackline_problem_set_link(*measured, 0, 1, delay, 0);
    return status == SLACKLINE_OK ? slackline_problem_set_link(*measured, 1, 0, delay, 0) : status;
}

/* What the trainer would run from the next iteration on. */
static slackline_status swap(const slackline_adaptation *adaptation, int iteration) {
    slackline_plan *plan;
    slackline_summary summary;
    slackline_status status = slackline_adaptation_plan(adaptation, &plan);
    if (status != SLACKLINE_OK)
        return status;
    slackline_plan_summary(plan, &summary);
    printf("iteration %d: from now on %s, %.1f ms\n", iteration, summary.schedule,
           (double)summary.makespan_ns / 1e6);
    slackline_plan_free(plan);
    return SLACKLINE_OK;
}

static slackline_status iterate(slackline_adaptation *adaptation, const slackline_problem *expected,
                                int iteration) {
    slackline_problem *measured = NULL;
    slackline_decision decision;
    slackline_status status = measure_iteration(expected, iteration, &measured);
    if (status == SLACKLINE_OK)
        status = slackline_adaptation_observe(adaptation, iteration, measured, &decision);
    if (status == SLACKLINE_OK)
        for (int i = 0; i < decision.events; i++)
            printf("iteration %d: %s: %s%s%s\n", iteration, decision.event[i].kind, decision.event[i].seen,
                   decision.event[i].seen[0] && decision.event[i].why[0] ? "; " : "", decision.event[i].why);
    if (status == SLACKLINE_OK && decision.verdict != SLACKLINE_KEEP)
        status = swap(adaptation, iteration);
    slackline_problem_free(measured);
    return status;
}

int main(void) {
    static const char problem_text[] =
        "pipeline: {ranks: 4, microbatches: 12, times_ms: {F: 10, I: 10, W: 10}}";
    slackline_problem *problem = NULL;
    slackline_planner *planner = NULL;
    slackline_plan *first = NULL;
    slackline_adaptation *adaptation = NULL;
    slackline_status status = slackline_problem_parse("problem", problem_text, NULL, 0, &problem);
    if (status == SLACKLINE_OK)
        status = slackline_planner_make(&planner);
    if (status == SLACKLINE_OK)
        status = slackline_planner_set_schedule(planner, "adaptra");
    if (status == SLACKLINE_OK)
        status = slackline_planner_plan(planner, problem, &first);
    if (status == SLACKLINE_OK)
        status = slackline_adaptation_make(first, NULL, &adaptation);
    for (int iteration = 0; iteration < 50 && status == SLACKLINE_OK; iteration++)
        status = iterate(adaptation, problem, iteration);
    if (status != SLACKLINE_OK)
        fprintf(stderr, "%s: %s\n", slackline_status_name(status), slackline_error());
    slackline_adaptation_free(adaptation);
    slackline_plan_free(first);
    slackline_planner_free(planner);
    slackline_problem_free(problem);
    return status == SLACKLINE_OK ? 0 : 1;
}
