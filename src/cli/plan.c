/* slackline plan: a schedule for a problem. */
#include "cli/command.h"
#include "cli/planning.h"
#include "plan/family/family.h"

#include <stdio.h>

static void print_help(void) {
    printf("Usage: slackline plan PROBLEM [--schedule NAME|auto|optimal] [--format FORM] [-o FILE]\n"
           "                      [--set KEY=VALUE]... [--time-limit S] [--jitter DRAWS] [--explain] [--seed "
           "N]\n\n"
           "Plans a schedule for the pipeline of the problem file PROBLEM (YAML; - is standard input).\n\n"
           "  --schedule NAME   one of the following; default auto\n");
    printf("      %-16s  the shortest of all within the memory limit, searched for where none is proven\n",
           "auto");
    printf("      %-16s  the result of a longer search (CrossUD, CrossLoop, CrossWave)\n", "optimal");
    for (const sl_family *family = sl_families; family->name; family++)
        printf("      %-16s  %s\n", family->name, family->help);
    printf("  --format FORM     what is printed:\n");
    sl_planning_print_forms(stdout);
    printf("  -o, --output FILE  write there, completely or not at all\n"
           "  --set KEY=VALUE   change a key of PROBLEM, by its dotted path\n"
           "  --time-limit S    seconds for auto (default 1) and optimal (default 10); it ends earlier when "
           "the plan is "
           "proven\n"
           "  --jitter DRAWS    the makespan's distribution when delays jitter (jitter_ms)\n"
           "  --explain         where the time goes, and what a ms on each link and op costs\n"
           "  --seed N          of the search and of jitter; default 1\n\n"
           "Example: slackline plan examples/four-ranks.yaml --set pipeline.links.list.0.latency_ms=60\n");
}

int sl_command_plan(int argc, char **argv) {
    sl_planning planning;
    sl_plan plan = {0};
    int help = 0;
    sl_status status = sl_planning_open("plan", argc, argv, &planning, &help);
    if (status == SL_OK && help)
        print_help();
    if (status == SL_OK && !help)
        status = sl_planning_make(&planning, &plan);
    if (status == SL_OK && !help)
        status = sl_planning_examine(&planning, &plan);
    if (status == SL_OK && !help)
        status = sl_planning_print(&planning, &plan);
    sl_plan_free(&plan);
    sl_planning_close(&planning);
    return sl_planning_end(status);
}
