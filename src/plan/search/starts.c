#include "plan/search/starts.h"
#include "base/memory.h"
#include "plan/bound/bound.h"
#include "plan/search/order_value.h"
#include "plan/search/portfolio.h"
#include "plan/timing/message_order.h"

#include <stdio.h>
#include <string.h>

sl_status sl_starts_open(const sl_problem *problem, sl_starts *s) {
    *s = (sl_starts){.problem = problem};
    return sl_lower_bound(problem, 0, &s->bound);
}

int sl_starts_proven(const sl_starts *s) {
    return s->count > 0 && s->start[0].value <= s->bound;
}

static int is_preferred(const sl_starts *s, const sl_start *start) {
    return s->preferred && start->name && strcmp(s->preferred, start->name) == 0;
}

static int goes_before(const sl_starts *s, const sl_start *a, const sl_start *b) {
    if (a->value != b->value)
        return a->value < b->value;
    if (is_preferred(s, a) != is_preferred(s, b))
        return is_preferred(s, a);
    return a->memory < b->memory;
}

static void insert(sl_starts *s, sl_start added) {
    int i = s->count;
    if (i == SL_STARTS) /* the last is dropped */
        sl_order_free(&s->start[i = --s->count].order);
    for (; i > 0 && goes_before(s, &added, &s->start[i - 1]); i--)
        s->start[i] = s->start[i - 1];
    s->start[i] = added;
    s->count++;
}

sl_status sl_starts_add(sl_starts *s, sl_order *order, const char *name) {
    sl_start added = {.name = name};
    const int all = s->count == 0 || s->problem->receive_buffers > 0; /* PyTorch's lowering may need more */
    const sl_message_effort effort = {
        .cutoff = all || s->problem->objective != SL_MAKESPAN ? SL_TIME_NEVER : s->start[0].value,
        .quick = 1};
    sl_status status = sl_messages_plan(s->problem, &effort, order);
    added.order = *order;
    SL_THEN(status, sl_measure(s->problem, order, &added.value, &added.memory));
    SL_THEN(status, sl_order_check_ascending(order));
    *order = (sl_order){0};
    if (status != SL_OK || added.value == SL_TIME_NEVER ||
        (s->ends && !sl_order_ends_alike(&added.order, s->ends)) ||
        (s->count == SL_STARTS && !goes_before(s, &added, &s->start[s->count - 1]))) {
        sl_order_free(&added.order);
        return status == SL_ENOMEM ? status : SL_OK;
    }
    insert(s, added);
    size_t used = strlen(s->tried);
    if (name)
        snprintf(s->tried + used, sizeof s->tried - used, "%s%s %.6g", used ? ", " : "", name,
                 sl_to_ms(added.value));
    return SL_OK;
}

sl_status sl_starts_add_family(sl_starts *s, const sl_family *family) {
    sl_order order;
    sl_status status = sl_family_build(family, s->problem, &order);
    if (status == SL_OK)
        return sl_starts_add(s, &order, family->name);
    return status == SL_ENOMEM ? status : SL_OK;
}

/* For activations in host memory: orders that fit into both memories are measured with their moves. */
static sl_status widen(sl_starts *s) {
    SL_TRY(sl_problem_copy(s->problem, &s->wide));
    for (int rank = 0; rank < s->problem->ranks && sl_problem_offloads(s->problem); rank++)
        s->wide.limit[rank] = sl_problem_room(s->problem, rank);
    sl_free(s->wide.host_limit);
    s->wide.host_limit = NULL;
    return SL_OK;
}

sl_status sl_starts_relax(sl_starts *s, int deep) {
    sl_time bound;
    SL_TRY(widen(s));
    if (s->problem->objective == SL_MAKESPAN) {
        SL_TRY(sl_relaxation_make(&s->wide, deep, &s->relaxation));
        SL_TRY(sl_relaxation_bound(&s->relaxation, &bound));
    } else {
        SL_TRY(sl_relaxation_make_skewed(&s->wide, deep, &s->relaxation));
        SL_TRY(sl_lower_bound(&s->wide, deep, &bound));
    }
    s->bound = bound > s->bound ? bound : s->bound;
    return SL_OK;
}

static sl_status add_rule(sl_starts *s, int rule) {
    sl_order order;
    sl_status status = sl_portfolio_order(&s->relaxation, rule, &order);
    if (status == SL_OK)
        return sl_starts_add(s, &order, NULL);
    return status == SL_ENOMEM ? status : SL_OK;
}

static sl_status add_serial(sl_starts *s) {
    const sl_relaxation *r = &s->relaxation;
    sl_order serial;
    SL_TRY(sl_serial_order(s->problem, &serial));
    SL_TRY(sl_starts_add(s, &serial, NULL));
    if (s->count > 0)
        return SL_OK;
    if (r->impossible)
        return sl_error(
            SL_ENONE,
            "no schedule fits into the memory limit: rank %d needs at least %g, over its limit of %g",
            r->impossible_rank, r->impossible_memory, s->problem->limit[r->impossible_rank]);
    return sl_error(SL_ENONE, "no schedule was found that fits into the memory limit");
}

sl_status sl_starts_add_portfolio(sl_starts *s, const sl_limit *until, int64_t *work) {
    const sl_problem *p = s->problem;
    int64_t cost = SL_PORTFOLIO_WORK * 3LL * p->stages * p->microbatches * p->parts;
    for (int i = 0; i < SL_PORTFOLIO && !sl_starts_proven(s); i++) {
        if (s->count > 0 && (*work < cost || sl_limit_is_over(until)))
            return SL_OK;
        if (s->count > 0 && !sl_portfolio_suits(p, i))
            continue;
        SL_TRY(add_rule(s, i));
        *work -= cost;
    }
    return s->count > 0 ? SL_OK : add_serial(s);
}

void sl_starts_free(sl_starts *s) {
    for (int i = 0; i < s->count; i++)
        sl_order_free(&s->start[i].order);
    sl_relaxation_free(&s->relaxation);
    sl_problem_free(&s->wide);
    *s = (sl_starts){0};
}
