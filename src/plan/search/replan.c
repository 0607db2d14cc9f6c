#include "plan/search/replan.h"
#include "plan/search/caps.h"
#include "plan/search/chains.h"
#include "plan/search/order_value.h"
#include "plan/timing/message_order.h"

#include <stdio.h>

/* Cost of one of the schedules that a laborious family tries, in replayed ops per op of it. */
#define LABOR 23

typedef struct replan {
    const sl_replan_options *options;
    sl_starts starts;
    int64_t ops;  /* of an order of F, I and W */
    int64_t work; /* remaining */
} replan;

static sl_status add_known(replan *r) {
    for (int i = 0; i < r->options->knowns; i++) {
        sl_order copy;
        SL_TRY(sl_order_copy(r->options->known[i], &copy));
        SL_TRY(sl_starts_add(&r->starts, &copy, "known"));
    }
    return SL_OK;
}

static int is_worth_it(const replan *r, const sl_family *family) {
    if (!sl_family_fits(family, r->starts.problem) || sl_starts_proven(&r->starts))
        return 0;
    return !(family->placements & SL_LABORIOUS) || r->starts.count == 0 || r->options->work == 0 ||
           4 * LABOR * family->tries * r->ops <= r->options->work;
}

/* The preferred one first: it may be proven optimal, and wins among equals. */
static sl_status add_families(replan *r) {
    const sl_family *first = r->starts.preferred ? sl_family_find(r->starts.preferred) : NULL;
    if (first && is_worth_it(r, first))
        SL_TRY(sl_starts_add_family(&r->starts, first));
    for (const sl_family *family = sl_families; family->name; family++)
        if (family != first && is_worth_it(r, family)) {
            SL_TRY(sl_starts_add_family(&r->starts, family));
            r->work -= (family->tries > 0 ? LABOR * family->tries : SL_MEASURE_WORK) * r->ops;
        }
    return SL_OK;
}

static sl_status search(replan *r) {
    const sl_limit until = {SL_TIME_NEVER, r->options->stop};
    if (sl_starts_proven(&r->starts) || (r->work <= 0 && r->starts.count > 0))
        return SL_OK;
    int deep = r->ops * r->starts.problem->microbatches <= r->options->work / 4; /* its cost */
    SL_TRY(sl_starts_relax(&r->starts, deep));
    SL_TRY(sl_starts_add_portfolio(&r->starts, &until, &r->work));
    int64_t tenth = r->work / 10, left = tenth;
    SL_TRY(sl_caps_search(&r->starts, &until, &left));
    r->work -= tenth - left;
    sl_chains chains = {.starts = &r->starts,
                        .threads = 1,
                        .until = until,
                        .work = r->work,
                        .seed = r->options->seed,
                        .bound = r->starts.bound};
    sl_status status = sl_chains_run(&chains);
    if (status == SL_OK && chains.improved)
        return sl_starts_add(&r->starts, &chains.best, NULL);
    sl_order_free(&chains.best);
    return status;
}

static sl_status make(replan *r, const sl_problem *problem, sl_plan *plan) {
    SL_TRY(sl_starts_open(problem, &r->starts));
    r->starts.preferred = r->options->schedule;
    r->starts.ends = r->options->ends;
    SL_TRY(add_families(r));
    SL_TRY(add_known(r));
    SL_TRY(search(r));
    sl_start *best = &r->starts.start[0];
    SL_TRY(sl_messages_plan(problem, SL_MESSAGES_THOROUGHLY, &best->order));
    SL_TRY(sl_plan_of_order(problem, &best->order, best->name ? best->name : "search", plan));
    plan->bound = !problem->layers && r->starts.bound > plan->bound ? r->starts.bound : plan->bound;
    snprintf(plan->why, sizeof plan->why, "tried %s ms", r->starts.tried);
    return SL_OK;
}

sl_status sl_replan(const sl_problem *problem, const sl_replan_options *options, sl_plan *plan) {
    replan r = {.options = options,
                .ops = 3LL * problem->stages * problem->microbatches * problem->parts,
                .work = options->work};
    *plan = (sl_plan){0};
    sl_status status = make(&r, problem, plan);
    sl_starts_free(&r.starts);
    return status;
}
