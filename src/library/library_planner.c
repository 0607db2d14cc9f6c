#include "base/memory.h"
#include "library/library_handles.h"
#include "plan/family/family.h"
#include "plan/lower/written.h"

#include <string.h>

SL_PUBLIC const char *slackline_schedule_name(int index) {
    static const char *const searched[] = {"auto", "optimal"};
    if (index < 0)
        return NULL;
    if (index < 2)
        return searched[index];
    for (const sl_family *family = sl_families; family->name; family++)
        if (index-- == 2)
            return family->name;
    return NULL;
}

SL_PUBLIC slackline_status slackline_planner_make(slackline_planner **planner) {
    SL_LIBRARY_TRY(sl_alloc(planner, 1, sizeof **planner));
    **planner = (slackline_planner){.schedule = "auto", .time_limit = -1, .seed = 1, .exact = 1};
    return SLACKLINE_OK;
}

SL_PUBLIC void slackline_planner_free(slackline_planner *planner) {
    sl_free(planner);
}

SL_PUBLIC slackline_status slackline_planner_set_schedule(slackline_planner *planner, const char *name) {
    for (int i = 0; slackline_schedule_name(i); i++)
        if (strcmp(slackline_schedule_name(i), name) == 0) {
            strcpy(planner->schedule, slackline_schedule_name(i));
            return SLACKLINE_OK;
        }
    char known[512] = "";
    for (int i = 0; slackline_schedule_name(i); i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", slackline_schedule_name(i));
    }
    return sl_library_status(sl_error(SL_EINVAL, "unknown schedule '%s'; known: %s", name, known));
}

SL_PUBLIC slackline_status slackline_planner_set_time_limit(slackline_planner *planner, double seconds) {
    if (!(seconds >= 0 && seconds <= 1e6))
        return sl_library_status(
            sl_error(SL_EINVAL, "a time limit must be from 0 to 1e6 s, got %g", seconds));
    planner->time_limit = seconds;
    return SLACKLINE_OK;
}

SL_PUBLIC void slackline_planner_set_seed(slackline_planner *planner, uint64_t seed) {
    planner->seed = seed;
}

SL_PUBLIC slackline_status slackline_planner_set_threads(slackline_planner *planner, int threads) {
    if (threads < 0)
        return sl_library_status(sl_error(SL_EINVAL, "threads must be at least 0, got %d", threads));
    planner->threads = threads;
    return SLACKLINE_OK;
}

SL_PUBLIC void slackline_planner_set_exact(slackline_planner *planner, int wanted) {
    planner->exact = wanted;
}

SL_PUBLIC void slackline_planner_stop(slackline_planner *planner) {
    atomic_store(&planner->stop, 1);
}

/* ---- making plans ---- */

static sl_status begin(const sl_problem *problem, slackline_plan **plan) {
    *plan = NULL;
    double total = sl_problem_total_ms(problem);
    if (total > SL_MAX_TOTAL_MS)
        return sl_error(SL_EINVAL, "all ops and messages in a row take %g ms; at most %g", total,
                        (double)SL_MAX_TOTAL_MS);
    SL_TRY(sl_alloc(plan, 1, sizeof **plan));
    return sl_problem_copy(problem, &(*plan)->problem);
}

static slackline_status end(sl_status status, slackline_plan **plan) {
    if (status != SL_OK) {
        slackline_plan_free(*plan);
        *plan = NULL;
    }
    return sl_library_status(status);
}

SL_PUBLIC slackline_status slackline_planner_plan(const slackline_planner *planner,
                                                  const slackline_problem *problem, slackline_plan **plan) {
    SL_PLAIN_NUMBERS;
    double standard = strcmp(planner->schedule, "optimal") == 0 ? 10 : 1;
    sl_plan_options options = {.schedule = planner->schedule,
                               .time_limit = planner->time_limit < 0 ? standard : planner->time_limit,
                               .seed = planner->seed,
                               .threads = planner->threads,
                               .exact = planner->exact,
                               .stop = &planner->stop};
    sl_status status = begin(&problem->problem, plan);
    SL_THEN(status, sl_plan_problem(&(*plan)->problem, &options, &(*plan)->plan));
    return end(status, plan);
}

static sl_status time_order(const sl_order *order, const char *name, slackline_plan *plan) {
    SL_TRY(sl_plan_of_order(&plan->problem, order, name, &plan->plan));
    return sl_plan_prove(&plan->problem, &plan->plan);
}

slackline_status sl_library_plan_of(const sl_problem *problem, const sl_order *order, const char *name,
                                    slackline_plan **plan) {
    sl_status status = begin(problem, plan);
    SL_THEN(status, time_order(order, name, *plan));
    return end(status, plan);
}

static sl_status copy_ops(const slackline_op *const *ops, const int *count, int ranks, sl_order *order) {
    int most = 0;
    for (int rank = 0; rank < ranks; rank++) {
        if (count[rank] < 0)
            return sl_error(SL_EINVAL, "rank %d: %d ops", rank, count[rank]);
        most = count[rank] > most ? count[rank] : most;
    }
    SL_TRY(sl_order_make(ranks, most, order));
    for (int rank = 0; rank < ranks; rank++) {
        order->count[rank] = count[rank];
        for (int i = 0; i < count[rank]; i++) {
            const slackline_op *op = &ops[rank][i];
            int part = op->part >= 0 && op->part <= SL_MAX_PARTS ? op->part : -1;
            order->ops[rank][i] = (sl_op){.stage = op->stage,
                                          .microbatch = op->microbatch,
                                          .kind = op->kind,
                                          .part = (int16_t)part,
                                          .paired = (int16_t)(op->paired != 0)};
        }
    }
    return SL_OK;
}

SL_PUBLIC slackline_status slackline_simulate(const slackline_problem *problem,
                                              const slackline_op *const *ops, const int *count,
                                              slackline_plan **plan) {
    SL_PLAIN_NUMBERS;
    sl_order order = {0};
    sl_status status = begin(&problem->problem, plan);
    SL_THEN(status, copy_ops(ops, count, problem->problem.ranks, &order));
    SL_THEN(status, time_order(&order, "given", *plan));
    sl_order_free(&order);
    return end(status, plan);
}

SL_PUBLIC slackline_status slackline_simulate_csv(const slackline_problem *problem, const char *file,
                                                  slackline_plan **plan) {
    SL_PLAIN_NUMBERS;
    sl_order order = {0};
    sl_status status = begin(&problem->problem, plan);
    SL_THEN(status, sl_order_read_csv(file, &(*plan)->problem, &order));
    SL_THEN(status, time_order(&order, "given", *plan));
    sl_order_free(&order);
    return end(status, plan);
}

SL_PUBLIC slackline_status slackline_simulate_csv_text(const slackline_problem *problem, const char *name,
                                                       const char *csv, size_t size, slackline_plan **plan) {
    SL_PLAIN_NUMBERS;
    sl_order order = {0};
    sl_status status = begin(&problem->problem, plan);
    SL_THEN(status, sl_order_parse_csv(name, csv, size, &(*plan)->problem, &order));
    SL_THEN(status, time_order(&order, "given", *plan));
    sl_order_free(&order);
    return end(status, plan);
}
