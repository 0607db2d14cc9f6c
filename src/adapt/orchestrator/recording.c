#include "adapt/orchestrator/recording.h"
#include "adapt/orchestrator/recording_fields.h"
#include "base/memory.h"

#include <string.h>

struct sl_recording {
    void (*line)(void *context, const char *text);
    void *context;
    sl_field_shape shape;
    sl_measured **slot; /* [slots] measurements that somebody else holds, too; NULL: free */
    size_t slots, room;
};

/* ---- pieces: NULL is no memory ---- */

static json_t *call(const char *name) {
    return json_pack("{s:s}", "call", name);
}

static json_t *orders(const sl_order *order) {
    json_t *ranks = json_array();
    for (int rank = 0; rank < order->ranks; rank++) {
        json_t *ops = json_array();
        for (int i = 0; i < order->count[rank]; i++) {
            const sl_op *op = &order->ops[rank][i];
            const int all[SL_RECORDED_OP] = {op->kind, op->stage, op->microbatch, op->part, op->paired};
            for (int k = 0; k < SL_RECORDED_OP; k++)
                if (json_array_append_new(ops, json_integer(all[k])) != 0) {
                    json_decref(ops);
                    json_decref(ranks);
                    return NULL;
                }
        }
        if (json_array_append_new(ranks, ops) != 0) {
            json_decref(ranks);
            return NULL;
        }
    }
    return ranks;
}

static json_t *plan_of(const sl_plan *plan) {
    return json_pack("{s:s, s:o}", "schedule", plan->schedule, "order", orders(&plan->order));
}

/* The same pointer again is null. */
static json_t *plans_of(const sl_plan *const *plan, int replicas) {
    json_t *list = json_array();
    for (int r = 0; r < replicas; r++)
        if (json_array_append_new(list, r > 0 && plan[r] == plan[r - 1] ? json_null() : plan_of(plan[r])) !=
            0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *problem_of(const sl_recording *rec, const sl_problem *p) {
    sl_problem base;
    json_t *object =
        json_pack("{s:i, s:i, s:i}", "ranks", p->ranks, "stages", p->stages, "microbatches", p->microbatches);
    if (!object || sl_problem_make(p->ranks, p->stages, p->microbatches, &base) != SL_OK) {
        json_decref(object);
        return NULL;
    }
    int good = sl_fields_put(object, sl_fields_problem, &rec->shape, p, &base);
    sl_problem_free(&base);
    if (good)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *problems_of(const sl_recording *rec, const sl_problem *const *problem, int replicas) {
    json_t *list = json_array();
    for (int r = 0; r < replicas; r++)
        if (json_array_append_new(list, r > 0 && problem[r] == problem[r - 1]
                                            ? json_null()
                                            : problem_of(rec, problem[r])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *texts_of(const char *const *text, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(list, json_string(text[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *members(const sl_recording *rec, const sl_field *field, const void *object) {
    json_t *all = json_object();
    if (all && sl_fields_put(all, field, &rec->shape, object, NULL))
        return all;
    json_decref(all);
    return NULL;
}

static int add(json_t *to, const char *key, json_t *value) {
    return json_object_set_new(to, key, value) == 0;
}

static sl_status finish(sl_recording *rec, json_t *line, int good) {
    size_t size = line && good ? json_dumpb(line, NULL, 0, JSON_COMPACT) : 0;
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

static sl_status write(sl_recording *rec, json_t *line) {
    return finish(rec, line, 1);
}

/* ---- calls ---- */

static sl_status write_open(sl_recording *rec, const sl_orchestrator_config *c) {
    int replicas = c->job.replicas;
    json_t *line = call("open");
    int good = line && add(line, "format", json_string(SL_RECORDING_FORMAT)) &&
               add(line, "schedule", json_string(c->job.schedule ? c->job.schedule : "auto")) &&
               sl_fields_put(line, sl_fields_config, &rec->shape, c, NULL);
    if (good && c->problem)
        good = add(line, "problem", problems_of(rec, c->problem, replicas)) &&
               add(line, "first", plans_of(c->first, replicas)) &&
               sl_fields_put(line, sl_fields_config_arrays, &rec->shape, c, NULL);
    if (good && c->problem && c->host)
        good = add(line, "host", texts_of(c->host, rec->shape.many[SL_MANY_PROCESSES]));
    if (good && c->unknown)
        good = add(line, "unknown", members(rec, sl_fields_unknown, c->unknown));
    return finish(rec, line, good);
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

/* Nobody else knows it: it cannot be given again. */
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
    if (object && sl_fields_put(object, sl_fields_problem, &rec->shape, &m->problem, planned) &&
        sl_fields_put(object, sl_fields_measured, &rec->shape, m, NULL) &&
        sl_grow(&rec->slot, &rec->room, free + 1, sizeof(sl_measured *)) == SL_OK) {
        rec->slot[free] = sl_measured_keep(m);
        rec->slots += free == rec->slots;
        return object;
    }
    json_decref(object);
    return NULL;
}

sl_status sl_recording_observe(sl_recording *rec, const sl_problem *const *planned,
                               const sl_orchestrator_iteration *it) {
    if (!rec)
        return SL_OK;
    json_t *line = call("observe"), *list = planned && it->replica ? json_array() : NULL;
    int good = line && sl_fields_put(line, sl_fields_iteration, &rec->shape, it, NULL);
    free_slots(rec);
    for (size_t r = 0; r < rec->shape.many[SL_MANY_REPLICAS] && list && good; r++)
        good = json_array_append_new(list, measured_of(rec, planned[r], it->replica[r])) == 0;
    if (good && list)
        good = json_object_set(line, "replica", list) == 0;
    json_decref(list);
    if (good && it->unknown)
        good = add(line, "unknown", members(rec, sl_fields_unknown, it->unknown));
    return finish(rec, line, good);
}

sl_status sl_recording_report(sl_recording *rec, sl_time now, const sl_orchestrator_report *report) {
    if (!rec)
        return SL_OK;
    json_t *line = call("report");
    return finish(rec, line,
                  line && add(line, "now", json_integer(now)) &&
                      sl_fields_put(line, sl_fields_report, &rec->shape, report, NULL) &&
                      add(line, "seen", json_string(report->seen)));
}

sl_status sl_recording_network(sl_recording *rec, sl_time now, const sl_network_measure *measure, int count) {
    if (!rec)
        return SL_OK;
    json_t *line = call("network"), *list = json_array();
    int good = line && add(line, "now", json_integer(now));
    for (int i = 0; i < count && good; i++)
        good = json_array_append_new(list, members(rec, sl_fields_network, &measure[i])) == 0;
    return finish(rec, line, line && add(line, "link", list) && good);
}

sl_status sl_recording_moved(sl_recording *rec, const sl_job_layout *layout, const sl_plan *const *plan) {
    if (!rec)
        return SL_OK;
    json_t *line = call("moved");
    return finish(rec, line,
                  line && sl_fields_put(line, sl_fields_layout, &rec->shape, layout, NULL) &&
                      add(line, "plan", plans_of(plan, (int)rec->shape.many[SL_MANY_REPLICAS])));
}

sl_status sl_recording_offer(sl_recording *rec, int replica, const sl_plan *plan) {
    return rec ? write(rec, json_pack("{s:s, s:i, s:o}", "call", "offer", "replica", replica, "plan",
                                      plan_of(plan)))
               : SL_OK;
}

sl_status sl_recording_estimate(sl_recording *rec, sl_strategy_kind strategy, sl_time cost) {
    return rec ? write(rec, json_pack("{s:s, s:i, s:I}", "call", "estimate", "strategy", (int)strategy,
                                      "cost", (json_int_t)cost))
               : SL_OK;
}

sl_status sl_recording_may_leave(sl_recording *rec, const char *host, int may) {
    return rec ? write(rec, json_pack("{s:s, s:s, s:i}", "call", "may_leave", "host", host, "may", may))
               : SL_OK;
}

sl_status sl_recording_skip(sl_recording *rec, int iterations, sl_time now) {
    return rec ? write(rec, json_pack("{s:s, s:i, s:I}", "call", "skip", "iterations", iterations, "now",
                                      (json_int_t)now))
               : SL_OK;
}

sl_status sl_recording_load(sl_recording *rec, const char *text) {
    return rec ? write(rec, json_pack("{s:s, s:s}", "call", "load", "text", text)) : SL_OK;
}

sl_status sl_recording_next(sl_recording *rec, const sl_orchestrator_action *action) {
    return rec ? write(rec, json_pack("{s:s, s:i, s:i}", "call", "next", "id", action->id, "what",
                                      (int)action->what))
               : SL_OK;
}

sl_status sl_recording_carried_out(sl_recording *rec, int id, sl_time now, sl_outcome outcome, sl_time took) {
    return rec ? write(rec, json_pack("{s:s, s:i, s:I, s:i, s:I}", "call", "carried_out", "id", id, "now",
                                      (json_int_t)now, "outcome", (int)outcome, "took", (json_int_t)took))
               : SL_OK;
}
