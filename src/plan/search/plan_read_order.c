#include "plan/search/plan_read.h"

#include <stdio.h>

static sl_status take_ops(const char *file, const sl_timeline *t, const sl_problem *problem,
                          sl_order *order) {
    char why[256];
    int most = 0;
    if (t->ranks != problem->ranks)
        return sl_error(SL_EINVAL, "%s: the plan is for %d ranks, the pipeline has %d", file, t->ranks,
                        problem->ranks);
    for (int i = 0, count = 0; i < t->spans; i++) { /* by rank, then in its order */
        count = i > 0 && t->span[i].rank == t->span[i - 1].rank ? count + 1 : 1;
        most = count > most ? count : most;
    }
    SL_TRY(sl_order_make(t->ranks, most, order));
    for (int i = 0; i < t->spans; i++) {
        int rank = t->span[i].rank;
        order->ops[rank][order->count[rank]++] = t->span[i].op;
    }
    if (sl_order_check(problem, order) == SL_OK)
        return SL_OK;
    snprintf(why, sizeof why, "%s", sl_error_text());
    return sl_error(SL_EINVAL, "%s: %s", file, why);
}

sl_status sl_plan_reader_end_order(sl_plan_reader *reader, const char *file, const sl_problem *problem,
                                   sl_order *order) {
    sl_timeline timeline;
    sl_plan_memory memory;
    char schedule[SL_PLAN_NAME];
    *order = (sl_order){0};
    if (problem->communication == SL_FIFO)
        return sl_error(SL_EINVAL, "%s: with communication fifo, the order of messages counts: use csv-comms",
                        file);
    sl_status status = sl_plan_reader_end(reader, &timeline, &memory, schedule);
    SL_THEN(status, take_ops(file, &timeline, problem, order));
    sl_timeline_free(&timeline);
    sl_plan_memory_free(&memory);
    if (status != SL_OK)
        sl_order_free(order);
    return status;
}

sl_status sl_plan_parse_order(const char *name, const char *text, size_t size, const sl_problem *problem,
                              sl_order *order) {
    sl_plan_reader *reader;
    *order = (sl_order){0};
    SL_TRY(sl_plan_reader_open(name, 1, &reader));
    sl_status status = sl_plan_reader_feed(reader, text, size);
    SL_THEN(status, sl_plan_reader_end_order(reader, name, problem, order));
    sl_plan_reader_close(reader);
    return status;
}
