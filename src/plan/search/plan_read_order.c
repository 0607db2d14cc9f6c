#include "base/file.h"
#include "base/memory.h"
#include "plan/search/plan_read.h"

#include <stdio.h>

#define MAX_BYTES ((size_t)1 << 30)

static sl_status take_ops(const char *file, const sl_timeline *t, const sl_problem *problem,
                          sl_order *order) {
    char why[256];
    if (t->ranks != problem->ranks)
        return sl_error(SL_EINVAL, "%s: the plan is for %d ranks, the pipeline has %d", file, t->ranks,
                        problem->ranks);
    SL_TRY(sl_order_make(t->ranks, t->spans, order));
    for (int i = 0; i < t->spans; i++) { /* by rank, then in its order */
        int rank = t->span[i].rank;
        order->ops[rank][order->count[rank]++] = t->span[i].op;
    }
    if (sl_order_check(problem, order) == SL_OK)
        return SL_OK;
    snprintf(why, sizeof why, "%s", sl_error_text());
    return sl_error(SL_EINVAL, "%s: %s", file, why);
}

sl_status sl_plan_parse_order(const char *name, const char *text, size_t size, const sl_problem *problem,
                              sl_order *order) {
    sl_timeline timeline;
    sl_plan_memory memory;
    char schedule[SL_PLAN_NAME];
    *order = (sl_order){0};
    if (problem->communication == SL_FIFO)
        return sl_error(SL_EINVAL, "%s: with communication fifo, the order of messages counts: use csv-comms",
                        name);
    sl_status status = sl_plan_read_json(name, text, size, &timeline, &memory, schedule);
    SL_THEN(status, take_ops(name, &timeline, problem, order));
    sl_timeline_free(&timeline);
    sl_plan_memory_free(&memory);
    if (status != SL_OK)
        sl_order_free(order);
    return status;
}

sl_status sl_plan_read_order(const char *file, const sl_problem *problem, sl_order *order) {
    char *text;
    size_t size;
    *order = (sl_order){0};
    SL_TRY(sl_file_read_max(file, MAX_BYTES, &text, &size));
    sl_status status = sl_plan_parse_order(file, text, size, problem, order);
    sl_free(text);
    return status;
}
