/* slackline simulate: times anybody's order on a problem. */
#include "cli/command.h"
#include "cli/planning.h"
#include "plan/pipeline/csv.h"

#include <stdio.h>

static void print_help(void) {
    printf(
        "Usage: slackline simulate PROBLEM --order FILE [--format FORM] [-o FILE] [--set KEY=VALUE]...\n"
        "                          [--jitter DRAWS] [--explain] [--seed N]\n\n"
        "Checks the order of FILE (CSV of PyTorch's pipelining, a line a rank) and times it on PROBLEM.\n\n"
        "  --order FILE      the order; compute_only and compute_comms forms are read\n"
        "  --format FORM     what is printed:\n");
    sl_planning_print_forms(stdout);
    printf("  -o, --output FILE  write there, completely or not at all\n"
           "  --set KEY=VALUE   change a key of PROBLEM, by its dotted path\n"
           "  --jitter DRAWS    the makespan's distribution when delays jitter (jitter_ms)\n"
           "  --explain         where the time goes, and what a ms on each link and op costs\n"
           "  --seed N          of jitter; default 1\n"
           "  --time-limit S    taken as by plan; nothing is searched here\n\n"
           "Example: slackline plan examples/four-ranks.yaml --format csv -o order.csv\n"
           "         slackline simulate examples/four-ranks.yaml --order order.csv --set "
           "pipeline.links.list.0.latency_ms=20\n");
}

static sl_status simulate(const sl_planning *planning) {
    sl_order order;
    sl_plan plan = {0};
    SL_TRY(sl_order_read_csv(planning->order_file, &planning->problem, &order));
    sl_status status = sl_plan_of_order(&planning->problem, &order, "file", &plan);
    SL_THEN(status, sl_plan_prove(&planning->problem, &plan));
    SL_THEN(status, sl_planning_examine(planning, &plan));
    SL_THEN(status, sl_planning_print(planning, &plan));
    sl_plan_free(&plan);
    sl_order_free(&order);
    return status;
}

int sl_command_simulate(int argc, char **argv) {
    sl_planning planning;
    int help = 0;
    sl_status status = sl_planning_open("simulate", argc, argv, &planning, &help);
    if (status == SL_OK && help)
        print_help();
    if (status == SL_OK && !help)
        status = simulate(&planning);
    sl_planning_close(&planning);
    return sl_planning_end(status);
}
