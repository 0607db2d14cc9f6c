/* slackline plan: a schedule for a problem. */
#include "cli/command.h"
#include "cli/plan_request.h"
#include "plan/family/family.h"

#include <stdio.h>

static int run(int argc, char **argv) {
    sl_plan_request planning;
    sl_plan plan = {0};
    sl_status status = sl_plan_request_open(argc, argv, &planning);
    SL_THEN(status, sl_plan_request_make(&planning, &plan));
    SL_THEN(status, sl_plan_request_examine(&planning, &plan));
    SL_THEN(status, sl_plan_request_print(&planning, &plan));
    sl_plan_free(&plan);
    sl_plan_request_close(&planning);
    return sl_plan_request_end(status);
}

const sl_command sl_command_plan = {
    .name = "plan",
    .summary = "plan a pipeline schedule for a problem file",
    .about = "Plans a schedule for the pipeline of the problem file PROBLEM (YAML; - is standard input).",
    .options = sl_plan_options_table,
    .example = "slackline plan examples/four-ranks.yaml --set pipeline.links.list.0.latency_ms=60",
    .run = run};
