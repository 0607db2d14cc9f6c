#include "plan/search/plan_read.h"
#include "base/memory.h"
#include "plan/pipeline/problem.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct plan_reader {
    const char *file;
    int ranks;
    const char *list; /* being read */
    size_t entry;
} plan_reader;

static sl_status refuse(const plan_reader *r, const char *key, const char *why) {
    return sl_error(SL_EINVAL, "%s: entry %zu of '%s': '%s' %s", r->file, r->entry, r->list, key, why);
}

static sl_status number_of(const plan_reader *r, const json_t *item, const char *key, int least, int most,
                           int32_t *n) {
    const json_t *value = json_object_get(item, key);
    if (!json_is_integer(value))
        return refuse(r, key, "must be a whole number");
    if (json_integer_value(value) < least || json_integer_value(value) > most)
        return refuse(r, key, "is out of range");
    *n = (int32_t)json_integer_value(value);
    return SL_OK;
}

static sl_status time_of(const plan_reader *r, const json_t *item, const char *key, sl_time *time) {
    const json_t *value = json_object_get(item, key);
    double ms = json_number_value(value);
    if (!json_is_number(value) || !isfinite(ms) || ms < 0 || ms > SL_MAX_TOTAL_MS)
        return refuse(r, key, "must be a time in ms");
    *time = sl_from_ms(ms);
    return SL_OK;
}

static sl_status kind_of(const plan_reader *r, const json_t *item, int kinds, int32_t *kind) {
    const char *name = json_string_value(json_object_get(item, "op"));
    for (*kind = 0; name && *kind < kinds; ++*kind)
        if (strcmp(sl_op_name(*kind), name) == 0)
            return SL_OK;
    return refuse(r, "op", "is not an op");
}

/* ---- ops ---- */

static sl_status read_span(const plan_reader *r, const json_t *item, sl_span *s) {
    int32_t kind = 0, part = 0;
    SL_TRY(number_of(r, item, "rank", 0, r->ranks - 1, &s->rank));
    SL_TRY(kind_of(r, item, SL_SPAN_KINDS, &kind));
    s->op.kind = kind;
    SL_TRY(number_of(r, item, "stage", 0, SL_MAX_STAGES - 1, &s->op.stage));
    SL_TRY(number_of(r, item, "microbatch", kind < SL_OP_KINDS ? 0 : -1, SL_MAX_MICROBATCHES - 1,
                     &s->op.microbatch));
    if (json_object_get(item, "part"))
        SL_TRY(number_of(r, item, "part", 0, SL_MAX_PARTS - 1, &part));
    s->op.part = (int16_t)part;
    SL_TRY(time_of(r, item, "start_ms", &s->start));
    SL_TRY(time_of(r, item, "end_ms", &s->end));
    return s->end < s->start ? refuse(r, "end_ms", "is before its start") : SL_OK;
}

/* The file has them by start; a timeline by rank, gathers before reductions before moves. */
typedef struct sorted {
    sl_span span;
    int group, entry;
} sorted;

static int compare_spans(const void *a, const void *b) {
    const sorted *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->span.rank != y->span.rank)
        return x->span.rank < y->span.rank ? -1 : 1;
    return x->entry < y->entry ? -1 : x->entry > y->entry;
}

static int group_of(const sl_op *op) {
    return op->kind < SL_OP_KINDS ? 0 : op->kind < SL_OFFLOAD ? op->kind : SL_OFFLOAD;
}

/* F and B of the same times on one rank are a pair. */
static void find_pairs(sl_timeline *t) {
    for (int i = 0; i + 1 < t->spans; i++) {
        sl_span *s = &t->span[i];
        const sl_span *next = s + 1;
        s->op.paired = s->op.kind == SL_F && next->op.kind == SL_B && next->rank == s->rank &&
                       next->start == s->start && next->end == s->end && s->end > s->start;
    }
}

static sl_status read_spans(plan_reader *r, const json_t *ops, sorted *all, size_t *spans) {
    *spans = 0;
    for (r->entry = 0; r->entry < json_array_size(ops); r->entry++) {
        sorted *s = &all[r->entry];
        SL_TRY(read_span(r, json_array_get(ops, r->entry), &s->span));
        s->group = group_of(&s->span.op);
        s->entry = (int)r->entry;
        *spans += s->group == 0;
    }
    if (json_array_size(ops) > 0)
        qsort(all, json_array_size(ops), sizeof *all, compare_spans);
    return SL_OK;
}

/* ---- messages ---- */

static sl_status read_transfers(plan_reader *r, const json_t *transfers, sl_timeline *t) {
    r->list = "transfers";
    for (r->entry = 0; r->entry < json_array_size(transfers); r->entry++) {
        const json_t *item = json_array_get(transfers, r->entry);
        sl_transfer *m = &t->transfer[r->entry];
        int32_t kind = 0;
        SL_TRY(number_of(r, item, "from", 0, r->ranks - 1, &m->from));
        SL_TRY(number_of(r, item, "to", 0, r->ranks - 1, &m->to));
        SL_TRY(kind_of(r, item, SL_OP_KINDS, &kind));
        m->op.kind = kind;
        SL_TRY(number_of(r, item, "stage", 0, SL_MAX_STAGES - 1, &m->op.stage));
        SL_TRY(number_of(r, item, "microbatch", 0, SL_MAX_MICROBATCHES - 1, &m->op.microbatch));
        SL_TRY(time_of(r, item, "start_ms", &m->start));
        SL_TRY(time_of(r, item, "end_ms", &m->end));
        SL_TRY(time_of(r, item, "arrive_ms", &m->arrive));
        if (m->end < m->start || m->arrive < m->end)
            return refuse(r, "arrive_ms", "is before its start or end");
    }
    return SL_OK;
}

/* ---- memory of ranks ---- */

static sl_status amount_of(const plan_reader *r, const json_t *item, const char *key, double *amount) {
    const json_t *value = json_object_get(item, key);
    *amount = json_number_value(value);
    return json_is_number(value) && isfinite(*amount) ? SL_OK : refuse(r, key, "must be a number");
}

static sl_status read_steps(const plan_reader *r, const json_t *steps, int rank, sl_plan_memory *m) {
    sl_time before = 0;
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *pair = json_array_get(steps, i), *at = json_array_get(pair, 0),
                     *used = json_array_get(pair, 1);
        const double ms = json_number_value(at);
        if (!json_is_number(at) || !json_is_number(used) || !(ms >= 0 && ms <= SL_MAX_TOTAL_MS) ||
            sl_from_ms(ms) < before)
            return refuse(r, "steps", "must be pairs of a time in ms, ascending, and a number");
        before = sl_from_ms(ms);
        m->step[m->first[rank] + (int)i] = (sl_memory_step){rank, before, json_number_value(used)};
    }
    m->first[rank + 1] = m->first[rank] + (int)json_array_size(steps);
    return SL_OK;
}

static sl_status read_rank(const plan_reader *r, const json_t *item, int rank, sl_plan_memory *m) {
    const json_t *steps = json_object_get(item, "steps");
    int32_t number;
    SL_TRY(number_of(r, item, "rank", rank, rank, &number));
    SL_TRY(amount_of(r, item, "fixed", &m->always[rank]));
    m->limit[rank] = INFINITY;
    if (json_object_get(item, "limit"))
        SL_TRY(amount_of(r, item, "limit", &m->limit[rank]));
    return json_is_array(steps) ? read_steps(r, steps, rank, m) : refuse(r, "steps", "must be a list");
}

static sl_status read_memory(plan_reader *r, const json_t *memory, sl_plan_memory *m) {
    size_t steps = 0;
    r->list = "memory";
    if (!json_is_array(memory) || json_array_size(memory) != (size_t)r->ranks)
        return sl_error(SL_EINVAL, "%s: 'memory' must be a list with an entry for each rank", r->file);
    for (size_t i = 0; i < (size_t)r->ranks; i++)
        steps += json_array_size(json_object_get(json_array_get(memory, i), "steps"));
    if (steps > 3 * (size_t)SL_MAX_OPS)
        return sl_error(SL_EINVAL, "%s: more than %d steps of memory", r->file, 3 * SL_MAX_OPS);
    SL_TRY(sl_alloc(&m->step, steps, sizeof *m->step));
    SL_TRY(sl_alloc(&m->first, (size_t)r->ranks + 1, sizeof *m->first));
    SL_TRY(sl_alloc(&m->always, (size_t)r->ranks, sizeof *m->always));
    SL_TRY(sl_alloc(&m->limit, (size_t)r->ranks, sizeof *m->limit));
    int limits = 0;
    for (r->entry = 0; r->entry < (size_t)r->ranks; r->entry++) {
        SL_TRY(read_rank(r, json_array_get(memory, r->entry), (int)r->entry, m));
        limits += isfinite(m->limit[r->entry]) != 0;
    }
    if (limits == 0) {
        sl_free(m->limit);
        m->limit = NULL;
    }
    return SL_OK;
}

/* ---- the plan ---- */

static sl_status read_plan(plan_reader *r, const json_t *plan, sl_timeline *t, sl_plan_memory *memory,
                           char *schedule) {
    const char *format = json_string_value(json_object_get(plan, "format")),
               *name = json_string_value(json_object_get(plan, "schedule"));
    const json_t *ops = json_object_get(plan, "ops"), *transfers = json_object_get(plan, "transfers"),
                 *ranks = json_object_get(plan, "ranks");
    sorted *all;
    size_t spans = 0, count = json_array_size(ops);
    if (!format || strcmp(format, "slackline-plan-1") != 0)
        return sl_error(SL_EINVAL, "%s: not a plan: its 'format' is not slackline-plan-1", r->file);
    if (!json_is_integer(ranks) || json_integer_value(ranks) < 1 || json_integer_value(ranks) > SL_MAX_RANKS)
        return sl_error(SL_EINVAL, "%s: 'ranks' must be a number from 1 to %d", r->file, SL_MAX_RANKS);
    if (!json_is_array(ops) || count == 0 || !json_is_array(transfers))
        return sl_error(SL_EINVAL, "%s: 'ops' and 'transfers' must be lists, and 'ops' must not be empty",
                        r->file);
    if (count > SL_MAX_OPS || json_array_size(transfers) > SL_MAX_OPS)
        return sl_error(SL_EINVAL, "%s: more than %d ops or transfers", r->file, SL_MAX_OPS);
    r->ranks = (int)json_integer_value(ranks);
    r->list = "ops";
    snprintf(schedule, SL_PLAN_NAME, "%s", name ? name : "plan");
    SL_TRY(sl_alloc(&all, count, sizeof *all));
    sl_status status = read_spans(r, ops, all, &spans);
    SL_THEN(status, sl_timeline_make(r->ranks, (int)spans, (int)json_array_size(transfers), t));
    SL_THEN(status, sl_alloc(&t->collective, count - spans, sizeof *t->collective));
    for (size_t i = 0; i < count && status == SL_OK; i++)
        *(i < spans ? &t->span[i] : &t->collective[t->collectives++]) = all[i].span;
    sl_free(all);
    SL_TRY(status);
    find_pairs(t);
    SL_TRY(read_transfers(r, transfers, t));
    const json_t *held = json_object_get(plan, "memory");
    return held ? read_memory(r, held, memory) : SL_OK;
}

sl_status sl_plan_read_json(const char *file, const char *text, size_t size, sl_timeline *timeline,
                            sl_plan_memory *memory, char schedule[SL_PLAN_NAME]) {
    json_error_t error;
    plan_reader r = {.file = file};
    *timeline = (sl_timeline){0};
    *memory = (sl_plan_memory){0};
    json_t *plan = json_loadb(text, size, 0, &error);
    if (!plan)
        return sl_error(SL_EINVAL, "%s:%d: %s", file, error.line, error.text);
    sl_status status = read_plan(&r, plan, timeline, memory, schedule);
    json_decref(plan);
    return status;
}
