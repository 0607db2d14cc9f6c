/* slackline simulate: times a given order on a problem. */
#include "cli/command.h"
#include "cli/plan_request.h"
#include "plan/pipeline/csv.h"

#include <stdio.h>

static sl_status simulate(const sl_plan_request *planning) {
    sl_order order;
    sl_plan plan = {0};
    SL_TRY(sl_order_read_csv(planning->order_file, &planning->problem, &order));
    sl_status status = sl_plan_of_order(&planning->problem, &order, "file", &plan);
    SL_THEN(status, sl_plan_prove(&planning->problem, &plan));
    SL_THEN(status, sl_plan_request_examine(planning, &plan));
    SL_THEN(status, sl_plan_request_print(planning, &plan));
    sl_plan_free(&plan);
    sl_order_free(&order);
    return status;
}

int sl_command_simulate(int argc, char **argv) {
    sl_plan_request planning;
    sl_status status = sl_plan_request_open(argc, argv, &planning);
    SL_THEN(status, simulate(&planning));
    sl_plan_request_close(&planning);
    return sl_plan_request_end(status);
}
