/* The forms of frameworks, and the file of an order that one of them needs. */
#include "cli/plan_request.h"

#include "base/memory.h"
#include "pack/pack.h"
#include "plan/pipeline/csv.h"

#include <stdlib.h>
#include <string.h>

/* plan.toml: plan.csv. NULL if the form needs none, or all goes to standard output. */
static sl_status order_path(const sl_plan_request *planning, char **path) {
    const char *output = planning->output;
    *path = NULL;
    if (strcmp(planning->format, "torchtitan") != 0 || !output || strcmp(output, "-") == 0)
        return SL_OK;
    size_t length = strlen(output) - (sl_packs(output) ? strlen(".gz") : 0), suffix = strlen(".toml");
    if (length > suffix && strncmp(output + length - suffix, ".toml", suffix) == 0)
        length -= suffix;
    SL_TRY(sl_alloc(path, length + sizeof ".csv", 1));
    memcpy(*path, output, length);
    strcpy(*path + length, ".csv");
    return SL_OK;
}

sl_status sl_plan_request_export(const sl_plan_request *planning, const sl_plan *plan, FILE *out) {
    sl_export_shape shape = planning->export_shape;
    char *path;
    SL_TRY(order_path(planning, &path));
    shape.csv = path;
    sl_status status = sl_export_find(planning->format)->write(&planning->problem, plan, &shape, out);
    sl_free(path);
    return status;
}

sl_status sl_plan_request_export_order(const sl_plan_request *planning, const sl_plan *plan) {
    sl_leaving leaving;
    char *path;
    SL_TRY(order_path(planning, &path));
    if (!path)
        return SL_OK;
    sl_status status = sl_leaving_open(path, &leaving);
    if (status == SL_OK)
        status =
            sl_leaving_close(&leaving, sl_order_write_csv(&planning->problem, &plan->order, leaving.out));
    sl_free(path);
    return status;
}
