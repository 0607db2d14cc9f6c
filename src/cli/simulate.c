/* slackline simulate: times anybody's order on a problem. */
#include "cli/command.h"
#include "cli/planning.h"
#include "plan/pipeline/csv.h"

#include <stdio.h>

static const char usage[] =
    "Usage: slackline simulate PROBLEM --order FILE [--format json|text|csv|csv-comms|svg] [-o FILE] [--set "
    "KEY=VALUE]...\n\n"
    "Checks the order of FILE (CSV of PyTorch's pipelining, a line a rank) and times it on PROBLEM.\n\n"
    "  --order FILE      the order; compute_only and compute_comms forms are read\n"
    "  --format FORM     text (a chart, the default), json, csv, csv-comms, svg\n"
    "  -o FILE           write there, completely or not at all\n"
    "  --set KEY=VALUE   change a key of PROBLEM, by its dotted path\n\n"
    "Example: slackline plan examples/four-ranks.yaml --format csv -o order.csv\n"
    "         slackline simulate examples/four-ranks.yaml --order order.csv --set "
    "pipeline.links.list.0.latency_ms=20\n";

static sl_status simulate(const sl_planning *planning) {
    sl_order order;
    sl_plan plan = {0};
    SL_TRY(sl_order_read_csv(planning->order_file, &planning->problem, &order));
    sl_status status = sl_plan_of_order(&planning->problem, &order, "file", &plan);
    if (status == SL_OK)
        status = sl_plan_prove(&planning->problem, &plan);
    if (status == SL_OK)
        status = sl_planning_print(planning, &plan);
    sl_plan_free(&plan);
    sl_order_free(&order);
    return status;
}

int sl_command_simulate(int argc, char **argv) {
    sl_planning planning;
    int help = 0;
    sl_status status = sl_planning_open("simulate", argc, argv, &planning, &help);
    if (status == SL_OK && help)
        fputs(usage, stdout);
    if (status == SL_OK && !help)
        status = simulate(&planning);
    sl_planning_close(&planning);
    return sl_planning_end(status);
}
