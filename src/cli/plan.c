/* slackline plan: a schedule for a problem. */
#include "cli/command.h"
#include "cli/planning.h"
#include "plan/family/family.h"

#include <stdio.h>

int sl_command_plan(int argc, char **argv) {
    sl_planning planning;
    sl_plan plan = {0};
    sl_status status = sl_planning_open(argc, argv, &planning);
    SL_THEN(status, sl_planning_make(&planning, &plan));
    SL_THEN(status, sl_planning_examine(&planning, &plan));
    SL_THEN(status, sl_planning_print(&planning, &plan));
    sl_plan_free(&plan);
    sl_planning_close(&planning);
    return sl_planning_end(status);
}
