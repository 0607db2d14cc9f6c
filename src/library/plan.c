#include "base/memory.h"
#include "library/handles.h"
#include "plan/draw/html.h"
#include "plan/draw/svg.h"
#include "plan/draw/trace.h"
#include "plan/lower/comms_csv.h"
#include "plan/pipeline/csv.h"
#include "plan/search/attribute.h"
#include "plan/timing/jitter.h"

#include <stdlib.h>
#include <string.h>

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
                                   .bound_ns = p->bound,
                                   .gap = sl_plan_gap(p),
                                   .bubble = sl_timeline_bubble(&p->timeline),
                                   .memory_ok = p->memory_ok,
                                   .solve_ns = p->solve};
}

static slackline_op public_op(const sl_op *op) {
    return (slackline_op){.stage = op->stage,
                          .microbatch = op->microbatch,
                          .kind = op->kind,
                          .part = op->part,
                          .paired = op->paired};
}

SL_PUBLIC size_t slackline_plan_spans(const slackline_plan *plan) {
    return (size_t)plan->plan.timeline.spans + (size_t)plan->plan.timeline.collectives;
}

SL_PUBLIC slackline_span slackline_plan_span(const slackline_plan *plan, size_t index) {
    const sl_timeline *t = &plan->plan.timeline;
    size_t ops = (size_t)t->spans;
    const sl_span *span = index < ops ? &t->span[index] : &t->collective[index - ops];
    return (slackline_span){
        .rank = span->rank, .op = public_op(&span->op), .start_ns = span->start, .end_ns = span->end};
}

SL_PUBLIC size_t slackline_plan_transfers(const slackline_plan *plan) {
    return (size_t)plan->plan.timeline.transfers;
}

SL_PUBLIC slackline_transfer slackline_plan_transfer(const slackline_plan *plan, size_t index) {
    const sl_transfer *t = &plan->plan.timeline.transfer[index];
    return (slackline_transfer){.from = t->from,
                                .to = t->to,
                                .op = public_op(&t->op),
                                .start_ns = t->start,
                                .end_ns = t->end,
                                .arrive_ns = t->arrive};
}

SL_PUBLIC int slackline_plan_ops(const slackline_plan *plan, int rank) {
    return rank >= 0 && rank < plan->problem.ranks ? plan->plan.order.count[rank] : 0;
}

SL_PUBLIC slackline_op slackline_plan_op(const slackline_plan *plan, int rank, int position) {
    return public_op(&plan->plan.order.ops[rank][position]);
}

SL_PUBLIC int slackline_plan_warmup(const slackline_plan *plan, int rank) {
    return plan->plan.warmup[rank];
}

SL_PUBLIC double slackline_plan_peak_memory(const slackline_plan *plan, int rank) {
    return plan->plan.peak_memory[rank];
}

SL_PUBLIC int64_t slackline_plan_tolerance(const slackline_plan *plan, int link) {
    return sl_plan_tolerance(&plan->problem, &plan->plan, link);
}

/* ---- more about it ---- */

SL_PUBLIC slackline_status slackline_plan_jitter(slackline_plan *plan, int draws, uint64_t seed,
                                                 slackline_jitter *jitter) {
    sl_status status = sl_plan_add_jitter(&plan->problem, &plan->plan, draws, seed);
    if (status != SL_OK)
        return sl_library_status(status);
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
    sl_status status = sl_plan_add_attribution(&plan->problem, &plan->plan);
    if (status != SL_OK)
        return sl_library_status(status);
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
    const sl_link_cost *link = &plan->plan.attribution->link[index];
    *from = link->from;
    *to = link->to;
    return link->cost;
}

SL_PUBLIC double slackline_plan_op_cost(const slackline_plan *plan, int index, int *stage,
                                        slackline_kind *kind) {
    const sl_op_cost *op = &plan->plan.attribution->op[index];
    *stage = op->stage;
    *kind = (slackline_kind)op->kind;
    return op->cost;
}

/* ---- as text ---- */

static sl_status draw(const slackline_plan *plan, FILE *out) {
    const sl_timeline *timeline = &plan->plan.timeline;
    const char *title = plan->plan.schedule;
    return sl_draw_svg(&timeline, &title, 1, out);
}

static sl_status write_to(const slackline_plan *plan, const char *format, FILE *out) {
    if (strcmp(format, "json") == 0)
        return sl_plan_write_json(&plan->problem, &plan->plan, out);
    if (strcmp(format, "csv") == 0)
        return sl_order_write_csv(&plan->problem, &plan->plan.order, out);
    if (strcmp(format, "csv-comms") == 0)
        return sl_program_write_csv(&plan->problem, &plan->plan.order, &plan->plan.program, out);
    if (strcmp(format, "svg") == 0)
        return draw(plan, out);
    if (strcmp(format, "html") == 0)
        return sl_draw_html(&plan->problem, &plan->plan, plan->plan.schedule, out);
    if (strcmp(format, "trace") == 0)
        return sl_trace_plan(&plan->problem, &plan->plan.program, &plan->plan.timeline, out);
    return sl_error(SL_EINVAL, "'%s' is no form of a plan; there are json, csv, csv-comms, svg, html, trace",
                    format);
}

SL_PUBLIC slackline_status slackline_plan_write(const slackline_plan *plan, const char *format, char **text,
                                                size_t *size) {
    size_t length = 0;
    *text = NULL;
    FILE *out = open_memstream(text, &length);
    if (!out)
        return sl_library_status(sl_error(SL_ENOMEM, "out of memory for the plan's text"));
    sl_status status = write_to(plan, format, out);
    if (fclose(out) != 0 && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for the plan's text");
    if (status != SL_OK) {
        free(*text);
        *text = NULL;
    } else if (size) {
        *size = length;
    }
    return sl_library_status(status);
}
