/* slackline simulate: times a given order on a problem. */
#include "cli/command.h"
#include "cli/order_file.h"
#include "cli/plan_request.h"

#include <stdio.h>

static sl_status simulate(const sl_plan_request *planning) {
    sl_order order;
    sl_plan plan = {0};
    SL_TRY(sl_order_file_read(planning->order_file, &planning->problem, &order));
    sl_status status = sl_plan_of_order(&planning->problem, &order, "file", &plan);
    SL_THEN(status, sl_plan_prove(&planning->problem, &plan));
    SL_THEN(status, sl_plan_request_examine(planning, &plan));
    SL_THEN(status, sl_plan_request_print(planning, &plan));
    sl_plan_free(&plan);
    sl_order_free(&order);
    return status;
}

static int run(int argc, char **argv) {
    sl_plan_request planning;
    sl_status status = sl_plan_request_open(argc, argv, &planning);
    SL_THEN(status, simulate(&planning));
    sl_plan_request_close(&planning);
    return sl_plan_request_end(status);
}

const sl_command sl_command_simulate = {
    .name = "simulate",
    .summary = "time a given order on a problem file",
    .about =
        "Checks the order of FILE (CSV of PyTorch's pipelining, one line per rank, or a form of DeepSpeed or "
        "Primus) and times it on PROBLEM.",
    .options = sl_simulate_options,
    .example = "slackline plan examples/four-ranks.yaml --format csv -o order.csv\n"
               "slackline simulate examples/four-ranks.yaml --order order.csv --set "
               "pipeline.links.list.0.latency_ms=20",
    .run = run};
