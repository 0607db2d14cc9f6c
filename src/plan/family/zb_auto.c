#include "plan/family/zb_auto.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/family/greedy_pass.h"
#include "plan/timing/objective.h"

/* The share of the last forward that may run when the first gradient has come, in percent, and what a W may
 * delay another op by, in quarters of it. */
static const struct zb_try {
    int late, overrun;
} tries[SL_ZB_AUTO_TRIES] = {{10, 4}, {0, 4}, {50, 4}, {80, 4}, {90, 4}, {20, 4}, {5, 4}, {0, 2}};

static sl_time delay(const sl_problem *p, int from, int to) {
    const sl_link *link = &p->link[(size_t)from * (size_t)p->ranks + (size_t)to];
    return link->latency + link->transfer;
}

/* From a rank's first forward until its first gradient can come. */
static sl_time first_gradient(const sl_problem *p, int rank) {
    sl_time time = p->time[SL_F][rank];
    for (int next = rank + 1; next < p->ranks; next++)
        time +=
            p->time[SL_F][next] + p->time[SL_I][next] + delay(p, next - 1, next) + delay(p, next, next - 1);
    return time;
}

static int capacity(const sl_problem *p, int rank) {
    double each = p->delta[SL_F][rank];
    if (!p->limit || each <= 0 || p->limit[rank] / each >= p->microbatches)
        return p->microbatches;
    return (int)(p->limit[rank] * (1 + 1e-9) / each);
}

/* Forwards come as fast as the slowest rank before makes them. */
static void choose_warmup(const sl_problem *p, int late, int *warmup) {
    sl_time slowest = 0;
    for (int rank = 0; rank < p->ranks; rank++) {
        slowest = sl_later(slowest, p->time[SL_F][rank]);
        double fit =
            slowest > 0 ? (double)first_gradient(p, rank) / (double)slowest + late / 100.0 : p->microbatches;
        int most = sl_smaller(p->microbatches, capacity(p, rank));
        warmup[rank] = fit >= most ? most : (int)fit;
        warmup[rank] = warmup[rank] > 1 ? warmup[rank] : 1;
    }
}

static sl_status try_one(const sl_problem *p, const struct zb_try *choice, int *warmup, sl_time *best,
                         sl_order *order) {
    sl_order other;
    sl_time value;
    choose_warmup(p, choice->late, warmup);
    sl_phase_rule rule = {.steady = SL_STRICT, .warmup = warmup, .overrun = choice->overrun};
    sl_status status = sl_phases_order(p, &rule, &other);
    if (status != SL_OK)
        return status == SL_ENONE ? SL_OK : status;
    status = sl_objective_of_order(p, &other, &value);
    if (status == SL_OK && value < *best) {
        sl_order worse = *order;
        *order = other;
        *best = value;
        other = worse;
    }
    sl_order_free(&other);
    return status;
}

sl_status sl_family_zb_auto(const sl_problem *p, sl_order *order) {
    int *warmup;
    sl_time best = SL_TIME_NEVER;
    *order = (sl_order){0};
    SL_TRY(sl_alloc(&warmup, (size_t)p->ranks, sizeof *warmup));
    sl_status status = SL_OK;
    for (int i = 0; i < SL_ZB_AUTO_TRIES && status == SL_OK; i++)
        status = try_one(p, &tries[i], warmup, &best, order);
    sl_free(warmup);
    if (status == SL_OK && best == SL_TIME_NEVER)
        status = sl_error(SL_ENONE, "zb-auto: no schedule fits into the memory limit");
    if (status != SL_OK)
        sl_order_free(order);
    return status;
}
