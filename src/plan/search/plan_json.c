/* The plan as JSON, format slackline-plan-1 (docs/formats.md). */
#include "plan/pipeline/layers.h"
#include "plan/search/attribute.h"
#include "plan/search/plan_lists.h"
#include "plan/timing/jitter.h"

#include <jansson.h>
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
    SL_TRY(sl_plan_write_lists(p, plan, out));
    fputs("\n}\n", out);
    return ferror(out) ? sl_error_errno(SL_ESYS, "the plan cannot be written") : SL_OK;
}
