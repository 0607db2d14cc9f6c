#include "adapt/orchestrator/recording.h"
#include "adapt/orchestrator/recording_fields.h"
#include "base/memory.h"

#include <string.h>

struct sl_recording {
    void (*line)(void *context, const char *text);
    void *context;
    sl_field_shape shape;
    sl_measured **slot; /* [slots] measurements that are also held elsewhere; NULL: free */
    size_t slots, room;
    int good; /* memory sufficed for the whole line */
};

/* ---- pieces: on lack of memory the line is not good, and the rest of it does not matter ---- */

static void add(sl_recording *rec, json_t *to, const char *key, json_t *value) {
    rec->good &= json_object_set_new(to, key, value) == 0;
}

static void append(sl_recording *rec, json_t *list, json_t *value) {
    rec->good &= json_array_append_new(list, value) == 0;
}

static void add_members(sl_recording *rec, json_t *to, const sl_field *field, const void *object,
                        const void *base) {
    rec->good &= to && sl_fields_put(to, field, &rec->shape, object, base);
}

static json_t *members(sl_recording *rec, const sl_field *field, const void *object) {
    json_t *all = json_object();
    add_members(rec, all, field, object, NULL);
    return all;
}

static json_t *order_of(sl_recording *rec, const sl_order *order) {
    json_t *ranks = json_array();
    for (int rank = 0; rank < order->ranks; rank++) {
        json_t *ops = json_array();
        for (int i = 0; i < order->count[rank]; i++) {
            const sl_op *op = &order->ops[rank][i];
            const int all[SL_RECORDED_OP] = {op->kind, op->stage, op->microbatch, op->part, op->paired};
            for (int k = 0; k < SL_RECORDED_OP; k++)
                append(rec, ops, json_integer(all[k]));
        }
        append(rec, ranks, ops);
    }
    return ranks;
}

static json_t *plan_of(sl_recording *rec, const sl_plan *plan) {
    return json_pack("{s:s, s:o}", "schedule", plan->schedule, "order", order_of(rec, &plan->order));
}

/* A repeated pointer is written as null. */
static json_t *plans_of(sl_recording *rec, const sl_plan *const *plan) {
    json_t *list = json_array();
    for (size_t r = 0; r < rec->shape.many[SL_MANY_REPLICAS]; r++)
        append(rec, list, r > 0 && plan[r] == plan[r - 1] ? json_null() : plan_of(rec, plan[r]));
    return list;
}

static json_t *problem_of(sl_recording *rec, const sl_problem *p) {
    sl_problem base;
    json_t *object =
        json_pack("{s:i, s:i, s:i}", "ranks", p->ranks, "stages", p->stages, "microbatches", p->microbatches);
    if (sl_problem_make(p->ranks, p->stages, p->microbatches, &base) != SL_OK) {
        rec->good = 0;
        return object;
    }
    add_members(rec, object, sl_fields_problem, p, &base);
    sl_problem_free(&base);
    return object;
}

static json_t *problems_of(sl_recording *rec, const sl_problem *const *problem) {
    json_t *list = json_array();
    for (size_t r = 0; r < rec->shape.many[SL_MANY_REPLICAS]; r++)
        append(rec, list, r > 0 && problem[r] == problem[r - 1] ? json_null() : problem_of(rec, problem[r]));
    return list;
}

static json_t *texts_of(sl_recording *rec, const char *const *text, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        append(rec, list, json_string(text[i]));
    return list;
}

static json_t *begin(sl_recording *rec, sl_recorded_call call) {
    rec->good = 1;
    return json_pack("{s:s}", "call", sl_recorded_forms[call].name);
}

static sl_status finish(sl_recording *rec, json_t *line) {
    size_t size = line && rec->good ? json_dumpb(line, NULL, 0, JSON_COMPACT) : 0;
    char *text = NULL;
    sl_status status = size ? sl_alloc(&text, size + 2, 1)
                            : sl_error(SL_ENOMEM, "out of memory for a line of the recording");
    if (status == SL_OK) {
        json_dumpb(line, text, size, JSON_COMPACT);
        text[size] = '\n';
        rec->line(rec->context, text);
    }
    json_decref(line);
    sl_free(text);
    return status;
}

/* ---- calls ---- */

static sl_status write_open(sl_recording *rec, const sl_orchestrator_config *c) {
    json_t *line = begin(rec, SL_CALL_OPEN);
    add(rec, line, "format", json_string(SL_RECORDING_FORMAT));
    add(rec, line, "schedule", json_string(c->job.schedule ? c->job.schedule : "auto"));
    add_members(rec, line, sl_fields_config, c, NULL);
    if (c->problem) {
        add(rec, line, "problem", problems_of(rec, c->problem));
        add(rec, line, "first", plans_of(rec, c->first));
        add_members(rec, line, sl_fields_config_arrays, c, NULL);
    }
    if (c->problem && c->host)
        add(rec, line, "host", texts_of(rec, c->host, rec->shape.many[SL_MANY_PROCESSES]));
    if (c->unknown)
        add(rec, line, "unknown", members(rec, sl_fields_unknown, c->unknown));
    return finish(rec, line);
}

sl_status sl_recording_open(const sl_orchestrator_config *config, sl_recording **recording) {
    sl_recording *rec;
    *recording = NULL;
    if (!config->record.line)
        return SL_OK;
    SL_TRY(sl_alloc(&rec, 1, sizeof *rec));
    rec->line = config->record.line;
    rec->context = config->record.context;
    rec->shape = sl_field_shape_of(config->job.replicas, config->job.ranks,
                                   config->problem ? config->problem[0]->stages : 0, config->job.tensor);
    *recording = rec;
    return write_open(rec, config);
}

void sl_recording_close(sl_recording *rec) {
    if (!rec)
        return;
    for (size_t i = 0; i < rec->slots; i++)
        sl_measured_drop(rec->slot[i]);
    sl_free(rec->slot);
    sl_free(rec);
}

/* Frees slots whose measurement is held here only: it cannot be passed in again. */
static void free_slots(sl_recording *rec) {
    for (size_t i = 0; i < rec->slots; i++)
        if (rec->slot[i] && rec->slot[i]->references == 1) {
            sl_measured_drop(rec->slot[i]);
            rec->slot[i] = NULL;
        }
}

static json_t *measured_of(sl_recording *rec, const sl_problem *planned, sl_measured *m) {
    size_t slot = 0, free = rec->slots;
    if (!m)
        return json_null();
    for (; slot < rec->slots && rec->slot[slot] != m; slot++)
        free = rec->slot[slot] || free < rec->slots ? free : slot;
    if (slot < rec->slots)
        return json_integer((json_int_t)slot);
    json_t *object = json_pack("{s:I}", "slot", (json_int_t)free);
    add_members(rec, object, sl_fields_problem, &m->problem, planned);
    add_members(rec, object, sl_fields_measured, m, NULL);
    rec->good = rec->good && sl_grow(&rec->slot, &rec->room, free + 1, sizeof(sl_measured *)) == SL_OK;
    if (rec->good) {
        rec->slot[free] = sl_measured_keep(m);
        rec->slots += free == rec->slots;
    }
    return object;
}

sl_status sl_recording_observe(sl_recording *rec, const sl_problem *const *planned,
                               const sl_orchestrator_iteration *it) {
    if (!rec)
        return SL_OK;
    json_t *line = begin(rec, SL_CALL_OBSERVE), *list = planned && it->replica ? json_array() : NULL;
    add_members(rec, line, sl_fields_iteration, it, NULL);
    free_slots(rec);
    for (size_t r = 0; r < rec->shape.many[SL_MANY_REPLICAS] && list; r++)
        append(rec, list, measured_of(rec, planned[r], it->replica[r]));
    if (planned && it->replica)
        add(rec, line, "replica", list);
    if (it->unknown)
        add(rec, line, "unknown", members(rec, sl_fields_unknown, it->unknown));
    return finish(rec, line);
}

sl_status sl_recording_report(sl_recording *rec, sl_time now, const sl_orchestrator_report *report) {
    if (!rec)
        return SL_OK;
    json_t *line = begin(rec, SL_CALL_REPORT);
    add(rec, line, "now", json_integer(now));
    add_members(rec, line, sl_fields_report, report, NULL);
    add(rec, line, "seen", json_string(report->seen));
    return finish(rec, line);
}

sl_status sl_recording_network(sl_recording *rec, sl_time now, const sl_network_measure *measure, int count) {
    if (!rec)
        return SL_OK;
    json_t *line = begin(rec, SL_CALL_NETWORK), *list = json_array();
    add(rec, line, "now", json_integer(now));
    for (int i = 0; i < count; i++)
        append(rec, list, members(rec, sl_fields_network, &measure[i]));
    add(rec, line, "link", list);
    return finish(rec, line);
}

sl_status sl_recording_moved(sl_recording *rec, const sl_job_layout *layout, const sl_plan *const *plan) {
    if (!rec)
        return SL_OK;
    json_t *line = begin(rec, SL_CALL_MOVED);
    add_members(rec, line, sl_fields_layout, layout, NULL);
    add(rec, line, "plan", plans_of(rec, plan));
    return finish(rec, line);
}

sl_status sl_recording_offer(sl_recording *rec, int replica, const sl_plan *plan) {
    if (!rec)
        return SL_OK;
    json_t *line = begin(rec, SL_CALL_OFFER);
    add(rec, line, "replica", json_integer(replica));
    add(rec, line, "plan", plan_of(rec, plan));
    return finish(rec, line);
}

sl_status sl_recording_call(sl_recording *rec, sl_recorded_call call, sl_recorded_values given) {
    const sl_recorded_form *form = &sl_recorded_forms[call];
    if (!rec)
        return SL_OK;
    json_t *line = begin(rec, call);
    if (form->text)
        add(rec, line, form->text, json_string(given.text));
    add_members(rec, line, form->numbers, &given, NULL);
    return finish(rec, line);
}
