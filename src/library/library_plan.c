#include "base/memory.h"
#include "library/library_handles.h"
#include "plan/search/attribute.h"
#include "plan/timing/jitter.h"

#include <stdlib.h>

SL_PUBLIC void slackline_plan_free(slackline_plan *plan) {
    if (!plan)
        return;
    sl_plan_free(&plan->plan);
    sl_problem_free(&plan->problem);
    sl_free(plan);
}

SL_PUBLIC void slackline_plan_summary(const slackline_plan *plan, slackline_summary *summary) {
    const sl_plan *p = &plan->plan;
    *summary = (slackline_summary){.schedule = p->schedule,
                                   .why = p->why,
                                   .makespan_ns = p->makespan,
                                   .span_ns = p->span,
                                   .ideal_ns = p->ideal,
                                   .bound_ns = p->bound,
                                   .gap = sl_plan_gap(p),
                                   .bubble = sl_timeline_bubble(&p->timeline),
                                   .dependency_loss_ns = p->dependency_loss,
                                   .blocking_loss_ns = p->blocking_loss,
                                   .memory_ok = p->memory_ok,
                                   .solve_ns = p->solve};
}

SL_PUBLIC const char *slackline_plan_objective(const slackline_plan *plan) {
    return sl_objective_names[plan->plan.objective];
}

SL_PUBLIC int64_t slackline_plan_value(const slackline_plan *plan) {
    return plan->plan.value;
}

static slackline_op public_op(const sl_op *op) {
    return (slackline_op){.stage = op->stage,
                          .microbatch = op->microbatch,
                          .kind = op->kind,
                          .part = op->part,
                          .paired = op->paired};
}

/* Represents an absent op. */
static const slackline_op no_op = {.stage = -1, .microbatch = -1, .kind = -1};

static int has_rank(const slackline_plan *plan, int rank) {
    return rank >= 0 && rank < plan->problem.ranks;
}

SL_PUBLIC size_t slackline_plan_spans(const slackline_plan *plan) {
    return (size_t)plan->plan.timeline.spans + (size_t)plan->plan.timeline.collectives;
}

SL_PUBLIC slackline_span slackline_plan_span(const slackline_plan *plan, size_t index) {
    const sl_timeline *t = &plan->plan.timeline;
    size_t ops = (size_t)t->spans;
    if (index >= slackline_plan_spans(plan))
        return (slackline_span){.rank = -1, .op = no_op};
    const sl_span *span = index < ops ? &t->span[index] : &t->collective[index - ops];
    return (slackline_span){
        .rank = span->rank, .op = public_op(&span->op), .start_ns = span->start, .end_ns = span->end};
}

typedef struct plan_start {
    sl_time time;
    int32_t rank;
    size_t index;
} plan_start;

static int earlier(const void *left, const void *right) {
    const plan_start *a = left, *b = right;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

SL_PUBLIC slackline_status slackline_plan_start_order(const slackline_plan *plan, size_t *index) {
    size_t count = slackline_plan_spans(plan);
    plan_start *starts;
    SL_LIBRARY_TRY(sl_alloc(&starts, count, sizeof *starts));
    for (size_t i = 0; i < count; i++) {
        slackline_span span = slackline_plan_span(plan, i);
        starts[i] = (plan_start){.time = span.start_ns, .rank = span.rank, .index = i};
    }
    qsort(starts, count, sizeof *starts, earlier);
    for (size_t i = 0; i < count; i++)
        index[i] = starts[i].index;
    sl_free(starts);
    return SLACKLINE_OK;
}

SL_PUBLIC size_t slackline_plan_transfers(const slackline_plan *plan) {
    return (size_t)plan->plan.timeline.transfers;
}

SL_PUBLIC slackline_transfer slackline_plan_transfer(const slackline_plan *plan, size_t index) {
    if (index >= slackline_plan_transfers(plan))
        return (slackline_transfer){.from = -1, .to = -1, .op = no_op};
    const sl_transfer *t = &plan->plan.timeline.transfer[index];
    return (slackline_transfer){.from = t->from,
                                .to = t->to,
                                .op = public_op(&t->op),
                                .start_ns = t->start,
                                .end_ns = t->end,
                                .arrive_ns = t->arrive};
}

SL_PUBLIC int slackline_plan_ops(const slackline_plan *plan, int rank) {
    return has_rank(plan, rank) ? plan->plan.order.count[rank] : 0;
}

SL_PUBLIC slackline_op slackline_plan_op(const slackline_plan *plan, int rank, int position) {
    return position >= 0 && position < slackline_plan_ops(plan, rank)
               ? public_op(&plan->plan.order.ops[rank][position])
               : no_op;
}

SL_PUBLIC int slackline_plan_warmup(const slackline_plan *plan, int rank) {
    return has_rank(plan, rank) ? plan->plan.warmup[rank] : 0;
}

SL_PUBLIC double slackline_plan_peak_memory(const slackline_plan *plan, int rank) {
    return has_rank(plan, rank) ? plan->plan.peak_memory[rank] : 0;
}

/* Whether the link between rank `link` and the next one exists. */
static int has_link(const slackline_plan *plan, int link) {
    return link >= 0 && link < plan->problem.ranks - 1;
}

SL_PUBLIC int slackline_plan_slack(const slackline_plan *plan, int link) {
    return has_link(plan, link) ? plan->plan.warmup[link] - plan->plan.warmup[link + 1] : 0;
}

SL_PUBLIC int64_t slackline_plan_tolerance(const slackline_plan *plan, int link) {
    return has_link(plan, link) ? sl_plan_tolerance(&plan->problem, &plan->plan, link) : 0;
}

/* ---- details ---- */

SL_PUBLIC slackline_status slackline_plan_jitter(slackline_plan *plan, int draws, uint64_t seed,
                                                 slackline_jitter *jitter) {
    SL_LIBRARY_TRY(sl_plan_add_jitter(&plan->problem, &plan->plan, draws, seed));
    const sl_jitter *j = plan->plan.jitter;
    *jitter = (slackline_jitter){.draws = j->draws,
                                 .mean_ns = j->mean,
                                 .least_ns = j->least,
                                 .p10_ns = j->p10,
                                 .p50_ns = j->p50,
                                 .p90_ns = j->p90,
                                 .p99_ns = j->p99,
                                 .most_ns = j->most};
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_plan_explain(slackline_plan *plan, slackline_losses *losses) {
    SL_LIBRARY_TRY(sl_plan_add_attribution(&plan->problem, &plan->plan));
    const sl_attribution *a = plan->plan.attribution;
    *losses = (slackline_losses){.work_ns = a->work,
                                 .imbalance_ns = a->imbalance,
                                 .fill_ns = a->fill,
                                 .collectives_ns = a->collectives,
                                 .dependency_ns = a->dependency,
                                 .blocking_ns = a->blocking,
                                 .links = a->links,
                                 .ops = a->ops};
    return SLACKLINE_OK;
}

SL_PUBLIC double slackline_plan_link_cost(const slackline_plan *plan, int index, int *from, int *to) {
    const sl_attribution *a = plan->plan.attribution;
    *from = *to = -1;
    if (!a || index < 0 || index >= a->links)
        return 0;
    const sl_link_cost *link = &a->link[index];
    *from = link->from;
    *to = link->to;
    return link->cost;
}

SL_PUBLIC double slackline_plan_op_cost(const slackline_plan *plan, int index, int *stage,
                                        slackline_kind *kind) {
    const sl_attribution *a = plan->plan.attribution;
    *stage = -1;
    *kind = SLACKLINE_F;
    if (!a || index < 0 || index >= a->ops)
        return 0;
    const sl_op_cost *op = &a->op[index];
    *stage = op->stage;
    *kind = (slackline_kind)op->kind;
    return op->cost;
}
