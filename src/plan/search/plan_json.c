/* The plan as JSON, format slackline-plan-1 (docs/formats.md). */
#include "base/memory.h"
#include "plan/lower/issue.h"
#include "plan/pipeline/layers.h"
#include "plan/search/attribute.h"
#include "plan/search/plan_memory.h"
#include "plan/timing/jitter.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *ms(sl_time t) {
    return json_real(sl_to_ms(t));
}

/* Takes ownership of `item`, NULL if memory ran out. A list that lost an item becomes NULL, which json_pack
 * rejects. */
static void append(json_t **list, json_t *item) {
    if (*list && json_array_append_new(*list, item) != 0) {
        json_decref(*list);
        *list = NULL;
    }
}

static json_t *links_json(const sl_problem *p, const sl_plan *plan) {
    json_t *links = json_array();
    for (int r = 0; r + 1 < p->ranks; r++) {
        const sl_link *link = &p->link[r * p->ranks + r + 1];
        append(&links, json_pack("{s:i, s:i, s:o, s:o, s:i, s:o}", "from", r, "to", r + 1, "latency_ms",
                                 ms(link->latency), "transfer_ms", ms(link->transfer), "slack",
                                 plan->warmup[r] - plan->warmup[r + 1], "tolerance_ms",
                                 ms(sl_plan_tolerance(p, plan, r))));
    }
    return links;
}

/* By start, then rank, then the rank's own sequence. */
static int compare_starts(const void *a, const void *b) {
    const sl_span *x = *(const sl_span *const *)a, *y = *(const sl_span *const *)b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1) : x < y ? -1 : x > y;
}

/* One item of a long list, on its own line: the whole list as a tree would take gigabytes. Takes ownership of
 * `item`. */
static int dump_item(json_t *item, int first, FILE *out) {
    fputs(first ? "\n  " : ",\n  ", out);
    int failed = !item || json_dumpf(item, out, JSON_REAL_PRECISION(15)) != 0;
    json_decref(item);
    return failed;
}

static json_t *op_json(const sl_problem *p, const sl_span *span) {
    json_t *item = json_pack("{s:i, s:s, s:i, s:i, s:o, s:o}", "rank", span->rank, "op",
                             sl_op_name(span->op.kind), "stage", span->op.stage, "microbatch",
                             span->op.microbatch, "start_ms", ms(span->start), "end_ms", ms(span->end));
    if (item && p->parts > 1 && span->op.kind < SL_OP_KINDS)
        json_object_set_new(item, "part", json_integer(span->op.part));
    return item;
}

static sl_status dump_ops(const sl_problem *p, const sl_plan *plan, FILE *out) {
    const sl_timeline *t = &plan->timeline;
    int count = t->spans + t->collectives, failed = 0;
    const sl_span **sorted;
    SL_TRY(sl_alloc(&sorted, (size_t)count, sizeof(const sl_span *)));
    for (int i = 0; i < count; i++)
        sorted[i] = i < t->spans ? &t->span[i] : &t->collective[i - t->spans];
    qsort(sorted, (size_t)count, sizeof(const sl_span *), compare_starts);
    fputs(",\n \"ops\": [", out);
    for (int i = 0; i < count; i++)
        failed |= dump_item(op_json(p, sorted[i]), i == 0, out);
    fputs("]", out);
    sl_free(sorted);
    return failed ? sl_error(SL_ENOMEM, "out of memory for the plan's JSON") : SL_OK;
}

static sl_status dump_transfers(const sl_plan *plan, FILE *out) {
    int failed = 0;
    fputs(",\n \"transfers\": [", out);
    for (int i = 0; i < plan->timeline.transfers; i++) {
        const sl_transfer *t = &plan->timeline.transfer[i];
        failed |= dump_item(json_pack("{s:i, s:i, s:s, s:i, s:i, s:o, s:o, s:o}", "from", t->from, "to",
                                      t->to, "op", sl_op_name(t->op.kind), "stage", t->op.stage, "microbatch",
                                      t->op.microbatch, "start_ms", ms(t->start), "end_ms", ms(t->end),
                                      "arrive_ms", ms(t->arrive)),
                            i == 0, out);
    }
    fputs("]", out);
    return failed ? sl_error(SL_ENOMEM, "out of memory for the plan's JSON") : SL_OK;
}

/* Of the op that makes its message, like a transfer. */
static json_t *issue_json(const sl_plan *plan, int rank, const sl_message_issue *issue) {
    const sl_op *op = &plan->program.message[issue->message].op;
    return json_pack("{s:i, s:s, s:s, s:i, s:i, s:i}", "rank", rank, "end",
                     issue->receive ? "receive" : "send", "op", sl_op_name(op->kind), "stage", op->stage,
                     "microbatch", op->microbatch, "after_ops", issue->step);
}

/* The order in which the ranks issue their messages, if it has a meaning. */
static sl_status dump_issues(const sl_problem *p, const sl_plan *plan, FILE *out) {
    sl_issuer *issuer;
    int failed = 0, first = 1;
    if (p->communication != SL_FIFO)
        return SL_OK;
    SL_TRY(sl_issuer_open(&plan->program, &issuer));
    sl_status status = sl_issuer_run(issuer);
    if (status == SL_OK)
        fputs(",\n \"issues\": [", out);
    for (int rank = 0; rank < p->ranks && status == SL_OK; rank++) {
        int count;
        const sl_message_issue *issue = sl_issues_of(issuer, rank, &count);
        for (int i = 0; i < count; i++, first = 0)
            failed |= dump_item(issue_json(plan, rank, &issue[i]), first, out);
    }
    fputs("]", out);
    sl_issuer_close(issuer);
    if (failed)
        status = sl_error(SL_ENOMEM, "out of memory for the plan's JSON");
    return status;
}

/* A rank's memory use at each instant at which it changes. */
static json_t *held_json(const sl_plan_memory *m, int rank) {
    json_t *steps = json_array();
    for (int i = m->first[rank]; i < m->first[rank + 1]; i++)
        append(&steps, json_pack("[o, f]", ms(m->step[i].time), m->step[i].used));
    json_t *item = json_pack("{s:i, s:f, s:o}", "rank", rank, "fixed", m->always[rank], "steps", steps);
    if (item && m->limit && isfinite(m->limit[rank]))
        json_object_set_new(item, "limit", json_real(m->limit[rank]));
    return item;
}

static sl_status dump_memory(const sl_problem *p, const sl_plan *plan, FILE *out) {
    sl_plan_memory held;
    int failed = 0;
    sl_status status;
    SL_TRY_GOTO(done, status, sl_plan_memory_make(p, &plan->timeline, &held));
    fputs(",\n \"memory\": [", out);
    for (int rank = 0; rank < p->ranks; rank++)
        failed |= dump_item(held_json(&held, rank), rank == 0, out);
    fputs("]", out);
    if (failed)
        status = sl_error(SL_ENOMEM, "out of memory for the plan's JSON");
done:
    sl_plan_memory_free(&held);
    return status;
}

/* If stages are cut from layers: the first layer of each, then the number of layers. */
static json_t *cut_json(const sl_problem *p) {
    json_t *values = json_array();
    for (int i = 0; i <= (p->placement == SL_BIDIRECTIONAL ? p->ranks : p->stages); i++)
        append(&values, json_integer(p->layers->first[i]));
    return values;
}

static json_t *peak_json(const sl_problem *p, const sl_plan *plan) {
    json_t *values = json_array();
    for (int rank = 0; rank < p->ranks; rank++)
        append(&values, json_real(plan->peak_memory[rank]));
    return values;
}

static json_t *host_json(const sl_problem *p, const sl_plan *plan) {
    json_t *values = json_array();
    for (int rank = 0; rank < p->ranks; rank++)
        append(&values, json_integer(plan->peak_host[rank]));
    return values;
}

static json_t *warmup_json(const sl_problem *p, const sl_plan *plan) {
    json_t *values = json_array();
    for (int rank = 0; rank < p->ranks; rank++)
        append(&values, json_integer(plan->warmup[rank]));
    return values;
}

static json_t *plan_json(const sl_problem *p, const sl_plan *plan) {
    double span_bubble = plan->span > 0 ? (double)(plan->span - plan->ideal) / (double)plan->span : 0;
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:s, s:o, s:o, s:o, s:o, s:{s:f, s:f}, s:o, s:f, s:o, s:b, s:o, "
        "s:o, s:{s:o, s:o}, s:o}",
        "format", "slackline-plan-1", "schedule", plan->schedule, "why", plan->why, "placement",
        sl_placement_name(p->placement), "ranks", p->ranks, "stages", p->stages, "microbatches",
        p->microbatches, "objective", sl_objective_names[plan->objective], "value_ms", ms(plan->value),
        "makespan_ms", ms(plan->makespan), "span_ms", ms(plan->span), "ideal_ms", ms(plan->ideal), "bubble",
        "makespan", sl_timeline_bubble(&plan->timeline), "span", span_bubble, "lower_bound_ms",
        ms(plan->bound), "gap", sl_plan_gap(plan), "peak_memory", peak_json(p, plan), "memory_ok",
        plan->memory_ok, "warmup", warmup_json(p, plan), "links", links_json(p, plan), "lost",
        "dependency_ms", ms(plan->dependency_loss), "blocking_ms", ms(plan->blocking_loss), "solve_ms",
        ms(plan->solve));
}

static json_t *jitter_json(const sl_problem *p, const sl_jitter *j) {
    return json_pack("{s:i, s:I, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "draws", j->draws, "seed",
                     (json_int_t)j->seed, "percentile", p->percentile, "mean_ms", j->mean / 1e6, "min_ms",
                     ms(j->least), "max_ms", ms(j->most), "p10_ms", ms(j->p10), "p50_ms", ms(j->p50),
                     "p90_ms", ms(j->p90), "p99_ms", ms(j->p99));
}

static json_t *explain_json(const sl_attribution *a) {
    json_t *links = json_array(), *ops = json_array();
    for (int i = 0; i < a->links; i++)
        append(&links, json_pack("{s:i, s:i, s:f}", "from", a->link[i].from, "to", a->link[i].to, "cost",
                                 a->link[i].cost));
    for (int i = 0; i < a->ops; i++)
        append(&ops, json_pack("{s:i, s:s, s:f}", "stage", a->op[i].stage, "op", sl_op_name(a->op[i].kind),
                               "cost", a->op[i].cost));
    return json_pack("{s:{s:o, s:o, s:o, s:o, s:o, s:o}, s:o, s:o}", "parts", "work_ms", ms(a->work),
                     "imbalance_ms", ms(a->imbalance), "fill_ms", ms(a->fill), "collectives_ms",
                     ms(a->collectives), "dependency_ms", ms(a->dependency), "blocking_ms", ms(a->blocking),
                     "links", links, "ops", ops);
}

/* Adds the parts that only some plans have; 0 if memory ran out. */
static int add_optional(const sl_problem *p, const sl_plan *plan, json_t *object) {
    if (plan->period >= 0 &&
        (json_object_set_new(object, "period_ms", ms(plan->period)) != 0 ||
         json_object_set_new(object, "synchronization",
                             json_string(sl_synchronization_names[p->synchronization])) != 0))
        return 0;
    if (p->layers && json_object_set_new(object, "cut", cut_json(p)) != 0)
        return 0;
    if (sl_problem_offloads(p) && json_object_set_new(object, "peak_host", host_json(p, plan)) != 0)
        return 0;
    if (plan->jitter && json_object_set_new(object, "jitter", jitter_json(p, plan->jitter)) != 0)
        return 0;
    return !plan->attribution || json_object_set_new(object, "explain", explain_json(plan->attribution)) == 0;
}

/* 15 digits: exact for ns in ms up to 11 days, and 0.1 stays 0.1 */
static char *head_text(const sl_problem *p, const sl_plan *plan) {
    json_t *object = plan_json(p, plan);
    if (object && !add_optional(p, plan, object)) {
        json_decref(object);
        return NULL;
    }
    char *text = object ? json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(object);
    return text;
}

sl_status sl_plan_write_json(const sl_problem *p, const sl_plan *plan, FILE *out) {
    char *text = head_text(p, plan);
    if (!text)
        return sl_error(SL_ENOMEM, "out of memory for the plan's JSON");
    fwrite(text, 1, strlen(text) - 2, out); /* without the end of the object */
    free(text);
    SL_TRY(dump_ops(p, plan, out));
    SL_TRY(dump_transfers(plan, out));
    SL_TRY(dump_issues(p, plan, out));
    SL_TRY(dump_memory(p, plan, out));
    fputs("\n}\n", out);
    return ferror(out) ? sl_error_errno(SL_ESYS, "the plan cannot be written") : SL_OK;
}
