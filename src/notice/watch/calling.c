#include "notice/watch/calling.h"
#include "base/memory.h"
#include "notice/watch/words.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARIABLES = 24, LONGEST = 4200 };

/* NAME=VALUE, one after the other. */
typedef struct variables {
    char *line[VARIABLES];
    int count;
    sl_status status;
} variables;

static void set(variables *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void set(variables *v, const char *format, ...) {
    char line[LONGEST];
    va_list more;
    va_start(more, format);
    vsnprintf(line, sizeof line, format, more);
    va_end(more);
    if (v->status == SL_OK && v->count < VARIABLES)
        v->status = sl_copy_text(&v->line[v->count], line);
    v->count += v->status == SL_OK && v->count < VARIABLES;
}

static void clear(variables *v) {
    for (int i = 0; i < v->count; i++)
        sl_free(v->line[i]);
}

int sl_calling_wants(sl_event_kind kind) {
    return kind == SL_EVENT_ONSET || kind == SL_EVENT_VERDICT || kind == SL_EVENT_RELIEF;
}

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

/* What every call is told. */
static json_t *describe(const sl_calling *c, const sl_event *event, const sl_status_view *view,
                        variables *v) {
    json_t *object = sl_event_json(event);
    if (!object)
        return NULL;
    json_object_set_new(object, "job", json_string(c->job));
    json_object_set_new(object, "directory", json_string(c->directory)); /* null where it is not UTF-8 */
    json_object_set_new(object, "status", sl_words_status_json(view));
    set(v, "SLACKLINE_EVENT=%s", sl_event_names[event->kind].name);
    set(v, "SLACKLINE_TIME_S=%.3f", (double)event->time / 1e9);
    set(v, "SLACKLINE_ITERATION=%d", event->iteration);
    set(v, "SLACKLINE_JOB=%s", c->job);
    set(v, "SLACKLINE_DIRECTORY=%s", c->directory);
    set(v, "SLACKLINE_SEEN=%s", event->seen);
    set(v, "SLACKLINE_ITERATION_MS=%.6g", view->level_ms);
    set(v, "SLACKLINE_HEALTHY_MS=%.6g", view->healthy_ms);
    if (event->rank >= 0)
        set(v, "SLACKLINE_RANK=%d", event->rank);
    if (event->from >= 0)
        set(v, "SLACKLINE_LINK=%d,%d", event->from, event->to);
    return object;
}

/* Takes the object. */
static sl_status post(const sl_calling *c, int64_t tag, const char *title, json_t *object, variables *v) {
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    sl_status status = text ? v->status : sl_error(SL_ENOMEM, "out of memory for an event");
    SL_THEN(status, sl_hook_post(c->hook, tag, title, text, (const char *const *)v->line, v->count));
    free(text);
    json_decref(object);
    clear(v);
    return status;
}

sl_status sl_calling_event(const sl_calling *c, const sl_event *event, const sl_status_view *view) {
    variables v = {0};
    char title[64];
    json_t *object = describe(c, event, view, &v);
    snprintf(title, sizeof title, "%s, iteration %d", sl_event_names[event->kind].name, event->iteration);
    return post(c, 0, title, object, &v);
}

static json_t *incidents_json(const sl_advice *advice, const sl_orchestrator_action *action, char *ids,
                              size_t size) {
    json_t *list = json_array();
    ids[0] = 0;
    for (int i = 0; i < action->count; i++) {
        size_t used = strlen(ids);
        snprintf(ids + used, size - used, "%s%d", used ? "," : "", action->incidents[i]);
        json_array_append_new(list, sl_advice_incident_json(advice, action->incidents[i]));
    }
    return list;
}

sl_status sl_calling_action(const sl_calling *c, const sl_advice *advice,
                            const sl_orchestrator_action *action, const sl_event *event,
                            const sl_status_view *view) {
    variables v = {0};
    char title[64], ids[256];
    const char *what = action->undo ? "undo" : "apply", *strategy = sl_advice_name(action->strategy);
    json_t *object = describe(c, event, view, &v);
    if (!object) {
        clear(&v);
        return sl_error(SL_ENOMEM, "out of memory for an event");
    }
    json_object_set_new(object, "action", json_string(what));
    json_object_set_new(object, "strategy", json_string(strategy));
    json_object_set_new(object, "incidents", incidents_json(advice, action, ids, sizeof ids));
    json_object_set_new(object, "loss", number(action->loss));
    json_object_set_new(object, "expected_loss", number(action->expected));
    json_object_set_new(object, "cost_s", json_real((double)action->cost / 1e9));
    json_object_set_new(object, "lost_s", json_real((double)action->lost / 1e9));
    json_t *split =
        action->strategy == SL_STRATEGY_BALANCE && !action->undo ? sl_advice_split_json(advice) : NULL;
    if (split)
        json_object_set_new(object, "split", split);
    set(&v, "SLACKLINE_ACTION=%s", what);
    set(&v, "SLACKLINE_STRATEGY=%s", strategy);
    set(&v, "SLACKLINE_INCIDENTS=%s", ids);
    set(&v, "SLACKLINE_LOSS=%.6g", action->loss);
    set(&v, "SLACKLINE_EXPECTED_LOSS=%.6g", action->expected);
    set(&v, "SLACKLINE_COST_S=%.6g", (double)action->cost / 1e9);
    snprintf(title, sizeof title, "%s %s, iteration %d", what, strategy, event->iteration);
    return post(c, action->id + 1, title, object, &v);
}
