#include "plan/search/plan_read.h"
#include "base/memory.h"
#include "base/scan.h"
#include "plan/pipeline/problem.h"
#include "plan/search/plan_items.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPS, TRANSFERS, MEMORY, ISSUES };
static const char *const lists[] = {
    [OPS] = "ops", [TRANSFERS] = "transfers", [MEMORY] = "memory", [ISSUES] = "issues", NULL};
static const sl_scan_form form = {
    .what = "a plan", .item = "an entry", .list = lists, .most = (size_t)1 << 30};

struct sl_plan_reader {
    char *file;
    sl_scanner *scanner;
    int ops_alone; /* messages and memory are not needed */
    int is_plan;
    int ranks; /* 0: not known yet */
    char schedule[SL_PLAN_NAME];
    const char *list; /* of the present entry, for errors */
    size_t entry, entries[ISSUES + 1];
    sl_span *span; /* ops and collectives, as in the file */
    size_t span_room;
    sl_transfer *transfer;
    size_t transfer_room;
    sl_plan_memory memory;
    size_t steps, step_room, first_room, always_room, limit_room;
};

static sl_status refuse(const sl_plan_reader *r, const char *key, const char *why) {
    return sl_error(SL_EINVAL, "%s: entry %zu of '%s': '%s' %s", r->file, r->entry, r->list, key, why);
}

static sl_status number_of(const sl_plan_reader *r, const json_t *item, const char *key, int least, int most,
                           int32_t *n) {
    const json_t *value = json_object_get(item, key);
    if (!json_is_integer(value))
        return refuse(r, key, "must be a whole number");
    if (json_integer_value(value) < least || json_integer_value(value) > most)
        return refuse(r, key, "is out of range");
    *n = (int32_t)json_integer_value(value);
    return SL_OK;
}

static sl_status time_of(const sl_plan_reader *r, const json_t *item, const char *key, sl_time *time) {
    const json_t *value = json_object_get(item, key);
    double ms = json_number_value(value);
    if (!json_is_number(value) || !isfinite(ms) || ms < 0 || ms > SL_MAX_TOTAL_MS)
        return refuse(r, key, "must be a time in ms");
    *time = sl_from_ms(ms);
    return SL_OK;
}

static sl_status kind_of(const sl_plan_reader *r, const json_t *item, int kinds, int32_t *kind) {
    const char *name = json_string_value(json_object_get(item, "op"));
    for (*kind = 0; name && *kind < kinds; ++*kind)
        if (strcmp(sl_op_name(*kind), name) == 0)
            return SL_OK;
    return refuse(r, "op", "is not an op");
}

/* Ranks may be known only at the end. */
static sl_status rank_of(const sl_plan_reader *r, const json_t *item, const char *key, int32_t *rank) {
    return number_of(r, item, key, 0, (r->ranks ? r->ranks : SL_MAX_RANKS) - 1, rank);
}

/* ---- ops ---- */

static sl_status read_span(const sl_plan_reader *r, const json_t *item, sl_span *s) {
    int32_t kind = 0, part = 0;
    SL_TRY(rank_of(r, item, "rank", &s->rank));
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

/* F and B of the same times on one rank are a pair. */
static void find_pairs(sl_timeline *t) {
    for (int i = 0; i + 1 < t->spans; i++) {
        sl_span *s = &t->span[i];
        const sl_span *next = s + 1;
        s->op.paired = s->op.kind == SL_F && next->op.kind == SL_B && next->rank == s->rank &&
                       next->start == s->start && next->end == s->end && s->end > s->start;
    }
}

/* ---- messages ---- */

static sl_status read_transfer(const sl_plan_reader *r, const json_t *item, sl_transfer *m) {
    int32_t kind = 0;
    SL_TRY(rank_of(r, item, "from", &m->from));
    SL_TRY(rank_of(r, item, "to", &m->to));
    SL_TRY(kind_of(r, item, SL_OP_KINDS, &kind));
    m->op.kind = kind;
    SL_TRY(number_of(r, item, "stage", 0, SL_MAX_STAGES - 1, &m->op.stage));
    SL_TRY(number_of(r, item, "microbatch", 0, SL_MAX_MICROBATCHES - 1, &m->op.microbatch));
    SL_TRY(time_of(r, item, "start_ms", &m->start));
    SL_TRY(time_of(r, item, "end_ms", &m->end));
    SL_TRY(time_of(r, item, "arrive_ms", &m->arrive));
    return m->end < m->start || m->arrive < m->end ? refuse(r, "arrive_ms", "is before its start or end")
                                                   : SL_OK;
}

/* ---- memory of ranks ---- */

static sl_status amount_of(const sl_plan_reader *r, const json_t *item, const char *key, double *amount) {
    const json_t *value = json_object_get(item, key);
    *amount = json_number_value(value);
    return json_is_number(value) && isfinite(*amount) ? SL_OK : refuse(r, key, "must be a number");
}

static sl_status read_steps(sl_plan_reader *r, const json_t *steps, int rank) {
    const size_t count = json_array_size(steps);
    sl_time before = 0;
    if (r->steps + count > 3 * (size_t)SL_MAX_OPS)
        return sl_error(SL_EINVAL, "%s: more than %d steps of memory", r->file, 3 * SL_MAX_OPS);
    SL_TRY(sl_grow(&r->memory.step, &r->step_room, r->steps + count, sizeof *r->memory.step));
    for (size_t i = 0; i < count; i++) {
        const json_t *pair = json_array_get(steps, i), *at = json_array_get(pair, 0),
                     *used = json_array_get(pair, 1);
        const double ms = json_number_value(at);
        if (!json_is_number(at) || !json_is_number(used) || !(ms >= 0 && ms <= SL_MAX_TOTAL_MS) ||
            sl_from_ms(ms) < before)
            return refuse(r, "steps", "must be pairs of a time in ms, ascending, and a number");
        before = sl_from_ms(ms);
        r->memory.step[r->steps++] = (sl_memory_step){rank, before, json_number_value(used)};
    }
    return SL_OK;
}

static sl_status read_rank(sl_plan_reader *r, const json_t *item) {
    const json_t *steps = json_object_get(item, "steps");
    const int rank = (int)r->entry;
    sl_plan_memory *m = &r->memory;
    int32_t number;
    if (r->entry >= SL_MAX_RANKS)
        return sl_error(SL_EINVAL, "%s: 'memory' has more than %d entries", r->file, SL_MAX_RANKS);
    SL_TRY(number_of(r, item, "rank", rank, rank, &number));
    SL_TRY(sl_grow(&m->first, &r->first_room, r->entry + 2, sizeof *m->first));
    SL_TRY(sl_grow(&m->always, &r->always_room, r->entry + 1, sizeof *m->always));
    SL_TRY(sl_grow(&m->limit, &r->limit_room, r->entry + 1, sizeof *m->limit));
    SL_TRY(amount_of(r, item, "fixed", &m->always[rank]));
    m->limit[rank] = INFINITY;
    if (json_object_get(item, "limit"))
        SL_TRY(amount_of(r, item, "limit", &m->limit[rank]));
    SL_TRY(json_is_array(steps) ? read_steps(r, steps, rank) : refuse(r, "steps", "must be a list"));
    m->first[rank + 1] = (int)r->steps;
    return SL_OK;
}

static sl_status finish_memory(sl_plan_reader *r, sl_plan_memory *memory) {
    sl_plan_memory *m = &r->memory;
    int limits = 0;
    if (!sl_scan_has(r->scanner, MEMORY))
        return SL_OK;
    if (r->entries[MEMORY] != (size_t)r->ranks)
        return sl_error(SL_EINVAL, "%s: 'memory' must be a list with an entry for each rank", r->file);
    for (int rank = 0; rank < r->ranks; rank++)
        limits += isfinite(m->limit[rank]) != 0;
    if (limits == 0) {
        sl_free(m->limit);
        m->limit = NULL;
    }
    *memory = *m;
    *m = (sl_plan_memory){0};
    return SL_OK;
}

/* ---- the text ---- */

static sl_status load(const sl_plan_reader *r, const char *text, size_t size, long line, json_t **value) {
    json_error_t error;
    *value = json_loadb(text, size, JSON_DECODE_ANY, &error);
    return *value ? SL_OK : sl_error(SL_EINVAL, "%s:%ld: %s", r->file, line + error.line - 1, error.text);
}

static sl_status take_span(sl_plan_reader *r, const char *text, size_t size, long line) {
    json_t *item;
    SL_TRY(sl_grow(&r->span, &r->span_room, r->entry + 1, sizeof *r->span));
    sl_span *s = &r->span[r->entry];
    if (sl_plan_item_span(text, s) && (r->ranks == 0 || s->rank < r->ranks))
        return SL_OK;
    SL_TRY(load(r, text, size, line, &item));
    sl_status status = read_span(r, item, s);
    json_decref(item);
    return status;
}

static sl_status take_transfer(sl_plan_reader *r, const char *text, size_t size, long line) {
    json_t *item;
    SL_TRY(sl_grow(&r->transfer, &r->transfer_room, r->entry + 1, sizeof *r->transfer));
    sl_transfer *m = &r->transfer[r->entry];
    if (sl_plan_item_transfer(text, m) && (r->ranks == 0 || (m->from < r->ranks && m->to < r->ranks)))
        return SL_OK;
    SL_TRY(load(r, text, size, line, &item));
    sl_status status = read_transfer(r, item, m);
    json_decref(item);
    return status;
}

static sl_status take_rank(sl_plan_reader *r, const char *text, size_t size, long line) {
    json_t *item;
    SL_TRY(load(r, text, size, line, &item));
    sl_status status = read_rank(r, item);
    json_decref(item);
    return status;
}

static sl_status take_item(void *object, int list, const char *text, size_t size, long line) {
    sl_plan_reader *r = object;
    r->list = lists[list];
    r->entry = r->entries[list]++;
    if (list < MEMORY && r->entry >= SL_MAX_OPS)
        return sl_error(SL_EINVAL, "%s: more than %d ops or transfers", r->file, SL_MAX_OPS);
    if (list == OPS)
        return take_span(r, text, size, line);
    if (list == ISSUES || r->ops_alone)
        return SL_OK;
    return list == TRANSFERS ? take_transfer(r, text, size, line) : take_rank(r, text, size, line);
}

static sl_status take_value(sl_plan_reader *r, const char *key, const json_t *value) {
    if (strcmp(key, "format") == 0) {
        const char *format = json_string_value(value);
        r->is_plan = format && strcmp(format, "slackline-plan-1") == 0;
        return r->is_plan
                   ? SL_OK
                   : sl_error(SL_EINVAL, "%s: not a plan: its 'format' is not slackline-plan-1", r->file);
    }
    if (strcmp(key, "schedule") == 0 && json_is_string(value))
        snprintf(r->schedule, sizeof r->schedule, "%s", json_string_value(value));
    if (strcmp(key, "ranks") != 0)
        return SL_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > SL_MAX_RANKS)
        return sl_error(SL_EINVAL, "%s: 'ranks' must be a number from 1 to %d", r->file, SL_MAX_RANKS);
    r->ranks = (int)json_integer_value(value);
    return SL_OK;
}

static sl_status take_member(void *object, const char *key, const char *text, size_t size) {
    sl_plan_reader *r = object;
    json_error_t error;
    json_t *value = json_loadb(text, size, JSON_DECODE_ANY, &error);
    if (!value)
        return sl_error(SL_EINVAL, "%s: '%s': %s", r->file, key, error.text);
    sl_status status = take_value(r, key, value);
    json_decref(value);
    return status;
}

/* ---- the plan ---- */

sl_status sl_plan_reader_open(const char *file, int ops_alone, sl_plan_reader **reader) {
    sl_plan_reader *r;
    *reader = NULL;
    SL_TRY(sl_alloc(&r, 1, sizeof *r));
    r->ops_alone = ops_alone;
    strcpy(r->schedule, "plan");
    sl_status status = sl_copy_text(&r->file, file);
    SL_THEN(status, sl_scan_open(file, &form, &(sl_scan_sink){take_item, take_member, r}, &r->scanner));
    if (status != SL_OK) {
        sl_plan_reader_close(r);
        return status;
    }
    *reader = r;
    return SL_OK;
}

sl_status sl_plan_reader_feed(void *reader, const char *bytes, size_t size) {
    return sl_scan_feed(((sl_plan_reader *)reader)->scanner, bytes, size);
}

void sl_plan_reader_close(sl_plan_reader *r) {
    if (!r)
        return;
    sl_scan_close(r->scanner);
    sl_plan_memory_free(&r->memory);
    SL_FREE(r->file, r->span, r->transfer, r);
}

/* What had to wait until the number of ranks was known. */
static sl_status check_ranks(sl_plan_reader *r) {
    for (r->list = lists[OPS], r->entry = 0; r->entry < r->entries[OPS]; r->entry++)
        if (r->span[r->entry].rank >= r->ranks)
            return refuse(r, "rank", "is out of range");
    for (r->list = lists[TRANSFERS], r->entry = 0; r->transfer && r->entry < r->entries[TRANSFERS];
         r->entry++)
        if (r->transfer[r->entry].from >= r->ranks || r->transfer[r->entry].to >= r->ranks)
            return refuse(r, r->transfer[r->entry].from >= r->ranks ? "from" : "to", "is out of range");
    return SL_OK;
}

static sl_status check(sl_plan_reader *r) {
    if (!r->is_plan)
        return sl_error(SL_EINVAL, "%s: not a plan: its 'format' is not slackline-plan-1", r->file);
    if (r->ranks == 0)
        return sl_error(SL_EINVAL, "%s: 'ranks' must be a number from 1 to %d", r->file, SL_MAX_RANKS);
    if (r->entries[OPS] == 0 || !sl_scan_has(r->scanner, TRANSFERS))
        return sl_error(SL_EINVAL, "%s: 'ops' and 'transfers' must be lists, and 'ops' must not be empty",
                        r->file);
    return check_ranks(r);
}

/* A timeline has ops before gathers before reductions before moves. */
static int group_of(const sl_op *op) {
    return op->kind < SL_OP_KINDS ? 0 : op->kind < SL_OFFLOAD ? op->kind : SL_OFFLOAD;
}

/* The spans of a group by rank, each rank's as in the file; *to moves past them. */
static sl_status put(const sl_plan_reader *r, int group, sl_span **to) {
    size_t *next, begin = 0;
    SL_TRY(sl_alloc(&next, (size_t)r->ranks + 1, sizeof *next));
    for (size_t i = 0; i < r->entries[OPS]; i++)
        next[r->span[i].rank + 1] += group_of(&r->span[i].op) == group;
    for (int rank = 0; rank <= r->ranks; rank++)
        begin = next[rank] += begin;
    for (size_t i = 0; i < r->entries[OPS]; i++)
        if (group_of(&r->span[i].op) == group)
            (*to)[next[r->span[i].rank]++] = r->span[i];
    *to += begin;
    sl_free(next);
    return SL_OK;
}

static sl_status put_all(const sl_plan_reader *r, sl_timeline *t) {
    sl_span *to = t->span;
    SL_TRY(put(r, 0, &to));
    to = t->collective;
    for (int group = SL_GATHER; group <= SL_OFFLOAD && t->collectives > 0; group++)
        SL_TRY(put(r, group, &to));
    return SL_OK;
}

static sl_status make_timeline(const sl_plan_reader *r, sl_timeline *t) {
    const size_t transfers = r->ops_alone ? 0 : r->entries[TRANSFERS];
    int spans = 0;
    for (size_t i = 0; i < r->entries[OPS]; i++)
        spans += group_of(&r->span[i].op) == 0;
    SL_TRY(sl_timeline_make(r->ranks, spans, (int)transfers, t));
    SL_TRY(sl_alloc(&t->collective, r->entries[OPS] - (size_t)spans, sizeof *t->collective));
    t->collectives = (int)r->entries[OPS] - spans;
    SL_TRY(put_all(r, t));
    find_pairs(t);
    if (transfers > 0)
        memcpy(t->transfer, r->transfer, transfers * sizeof *t->transfer);
    return SL_OK;
}

sl_status sl_plan_reader_end(sl_plan_reader *r, sl_timeline *timeline, sl_plan_memory *memory,
                             char schedule[SL_PLAN_NAME]) {
    *timeline = (sl_timeline){0};
    *memory = (sl_plan_memory){0};
    SL_TRY(sl_scan_end(r->scanner));
    SL_TRY(check(r));
    SL_TRY(make_timeline(r, timeline));
    memcpy(schedule, r->schedule, SL_PLAN_NAME);
    return r->ops_alone ? SL_OK : finish_memory(r, memory);
}

sl_status sl_plan_read_json(const char *file, const char *text, size_t size, sl_timeline *timeline,
                            sl_plan_memory *memory, char schedule[SL_PLAN_NAME]) {
    sl_plan_reader *reader;
    *timeline = (sl_timeline){0};
    *memory = (sl_plan_memory){0};
    SL_TRY(sl_plan_reader_open(file, 0, &reader));
    sl_status status = sl_plan_reader_feed(reader, text, size);
    SL_THEN(status, sl_plan_reader_end(reader, timeline, memory, schedule));
    sl_plan_reader_close(reader);
    return status;
}
