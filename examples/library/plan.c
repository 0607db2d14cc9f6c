/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule for four ranks with a slow link, from C.
 *
 * $ cc plan.c $(pkg-config --cflags --libs slackline) -o plan && ./plan
 * > adaptra: 410.0 ms, bound 410.0 ms, gap 0.00%
 * > rank 0: F0 F1
 *
 * 390 ms of ops and the link's 20 ms: no schedule can be shorter. */
#include <slackline/slackline.h>
#include <stdio.h>

static const int64_t ms = 1000000;

/* Four equal stages, 12 microbatches, and a link that gained 20 ms each way. */
static slackline_status describe(slackline_problem *problem) {
    slackline_status status = SLACKLINE_OK;
    for (int stage = 0; stage < 4 && status == SLACKLINE_OK; stage++) {
        status = slackline_problem_set_time(problem, stage, SLACKLINE_F, 10 * ms);
        if (status == SLACKLINE_OK)
            status = slackline_problem_set_time(problem, stage, SLACKLINE_I, 10 * ms);
        if (status == SLACKLINE_OK)
            status = slackline_problem_set_time(problem, stage, SLACKLINE_W, 10 * ms);
    }
    if (status == SLACKLINE_OK)
        status = slackline_problem_set_link(problem, 0, 1, 20 * ms, 0);
    return status == SLACKLINE_OK ? slackline_problem_set_link(problem, 1, 0, 20 * ms, 0) : status;
}

static void show(const slackline_plan *plan) {
    slackline_summary summary;
    slackline_plan_summary(plan, &summary);
    printf("%s: %.1f ms, bound %.1f ms, gap %.2f%%\n", summary.schedule, (double)summary.makespan_ns / 1e6,
           (double)summary.bound_ns / 1e6, 100 * summary.gap);
    for (int rank = 0; rank < 4; rank++) {
        printf("rank %d:", rank);
        for (int i = 0; i < slackline_plan_ops(plan, rank) && i < 12; i++) {
            slackline_op op = slackline_plan_op(plan, rank, i);
            printf(" %c%d", "FIWB"[op.kind], op.microbatch);
        }
        printf(" ..\n");
    }
}

int main(void) {
    slackline_problem *problem = NULL;
    slackline_planner *planner = NULL;
    slackline_plan *plan = NULL;
    slackline_status status = slackline_problem_make(SLACKLINE_LINEAR, 4, 0, 12, &problem);
    if (status == SLACKLINE_OK)
        status = describe(problem);
    if (status == SLACKLINE_OK)
        status = slackline_planner_make(&planner);
    if (status == SLACKLINE_OK)
        status = slackline_planner_plan(planner, problem, &plan);
    if (status == SLACKLINE_OK)
        show(plan);
    else
        fprintf(stderr, "%s\n", slackline_error());
    slackline_plan_free(plan);
    slackline_planner_free(planner);
    slackline_problem_free(problem);
    return status == SLACKLINE_OK ? 0 : 1;
}
