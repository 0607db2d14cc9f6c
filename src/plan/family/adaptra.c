#include "plan/family/adaptra.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/family/list.h"
#include "plan/family/slack.h"
#include "plan/timing/objective.h"

#include <math.h>

#define MAX_OPS 4000 /* for which the other rules are tried */

static int links_are_free(const sl_problem *p) {
    for (int i = 0; i < p->ranks * p->ranks; i++)
        if (p->link[i].latency > 0 || p->link[i].transfer > 0)
            return 0;
    return 1;
}

/* Forwards that a rank may run before its first I within its limit, at most all; if I takes memory, room for
 * it is kept (F leaves it, see list.c). */
static int capacity(const sl_problem *p, int rank) {
    double each = p->delta[SL_F][rank], start = p->early[rank], end = start + p->delta[SL_I][rank],
           most = start > end ? start : end, input = most > 0 ? most : 0;
    if (!p->limit)
        return p->microbatches;
    double room = p->limit[rank] * (1 + 1e-9) - input;
    if (each <= 0)
        return room >= each ? p->microbatches : 0;
    return room < 0 ? 0 : room / each >= p->microbatches ? p->microbatches : (int)(room / each);
}

/* A minimum for every order: when a rank starts its last F, it holds at least the memory that all other
 * microbatches leave allocated, plus that F or its I. */
static sl_status check_room(const sl_problem *p) {
    for (int rank = 0; p->limit && rank < p->ranks; rank++) {
        double forward = p->delta[SL_F][rank], begun = forward + p->early[rank],
               input = begun + p->delta[SL_I][rank], kept = input + p->delta[SL_W][rank];
        double most = fmax(forward, fmax(begun, input));
        double needed = most + (kept > 0 ? kept * (p->microbatches - 1) : 0);
        if (needed > p->limit[rank] * (1 + 1e-9))
            return sl_error(SL_ENONE, "adaptra needs memory of at least %g on rank %d, over its limit of %g",
                            needed, rank, p->limit[rank]);
    }
    return SL_OK;
}

/* A rank's warm-up exceeds neither its own memory nor the warm-up of the rank before (Lemma 1: it never
 * grows). */
static void clip(const sl_problem *p, int x0, int *x) {
    for (int rank = 0; rank < p->ranks; rank++) {
        x[rank] = sl_smaller(x[rank], sl_smaller(capacity(p, rank), rank > 0 ? x[rank - 1] : x0));
        x[rank] = x[rank] > 1 ? x[rank] : 1;
    }
}

static void choose_warmup(const sl_problem *p, int adapted, int x0, int *x) {
    if (adapted)
        sl_warmup_adapted(p, x);
    else
        sl_warmup_balanced(p->ranks, x0, x);
    clip(p, x0, x);
}

static sl_status keep_shorter(const sl_problem *p, const sl_list_rule *rule, sl_order *order,
                              sl_time *value) {
    sl_order other;
    sl_time time;
    sl_status status = sl_list_schedule(p, rule, &other);
    if (status != SL_OK)
        return status == SL_ENONE ? SL_OK : status; /* stuck: this rule does not suit this memory */
    status = sl_objective_of_order(p, &other, &time);
    if (status == SL_OK && time < *value) {
        sl_order longer = *order;
        *order = other;
        *value = time;
        other = longer;
    }
    sl_order_free(&other);
    return status;
}

/* No order of F, I and W takes less: a rank's first F cannot come before those of the ranks above it. Only
 * the makespan includes the time until then. */
static sl_time min_value(const sl_problem *p) {
    sl_time head = 0, most = 0;
    for (int rank = 0; rank < p->ranks; rank++) {
        sl_time work = p->time[SL_F][rank] + p->time[SL_I][rank] + p->time[SL_W][rank];
        most = head + work * p->microbatches > most ? head + work * p->microbatches : most;
        if (rank + 1 < p->ranks && p->objective == SL_MAKESPAN)
            head += p->time[SL_F][rank] + p->link[rank * p->ranks + rank + 1].latency +
                    p->link[rank * p->ranks + rank + 1].transfer;
    }
    return most;
}

/* I before F before W uses a tight memory for forwards first, and may start a W that is in the way shortly
 * after. */
static sl_status improve(const sl_problem *p, const sl_list_rule *rule, sl_order *order) {
    sl_list_rule other = *rule;
    sl_time value, mean = 0;
    sl_status status;
    SL_TRY_GOTO(err_free_order, status, sl_objective_of_order(p, order, &value));
    if (value <= min_value(p))
        return SL_OK;
    other.forward_first = 1;
    SL_TRY_GOTO(err_free_order, status, keep_shorter(p, &other, order, &value));
    for (int rank = 0; rank < p->ranks; rank++)
        mean += p->time[SL_W][rank] / p->ranks;
    other.forward_first = 0;
    other.patience = mean * 3 / 5; /* the best of a few values on random profiles */
    SL_TRY_GOTO(err_free_order, status, keep_shorter(p, &other, order, &value));
    return SL_OK;
err_free_order:
    sl_order_free(order);
    return status;
}

/* Algorithm 1 uses M / M_F for x_0, as if I freed everything. Here memory follows the deltas, so x_0 is the
 * largest with which the list scheduler completes. Without a limit the first attempt succeeds. */
sl_status sl_family_adaptra(const sl_problem *p, sl_order *order) {
    int *x, adapted = !p->limit || !links_are_free(p);
    SL_TRY(check_room(p));
    SL_TRY(sl_alloc(&x, (size_t)p->ranks, sizeof *x));
    sl_list_rule rule = {.warmup = x, .limited = 1};
    sl_status status = SL_ENONE;
    for (int x0 = capacity(p, 0) > 1 ? capacity(p, 0) : 1; x0 >= 1 && status == SL_ENONE; x0--) {
        choose_warmup(p, adapted, x0, x);
        if (x[0] < x0)
            x0 = x[0];
        status = sl_list_schedule(p, &rule, order);
    }
    if (status == SL_OK && p->limit && p->parts == 1 && 3 * p->stages * p->microbatches <= MAX_OPS)
        status = improve(p, &rule, order);
    sl_free(x);
    return status == SL_ENONE ? sl_error(SL_ENONE, "adaptra: no schedule fits into the memory limit")
                              : status;
}
