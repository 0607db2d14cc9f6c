#include "base/event.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW(kind, name, meaning) [SL_EVENT_##kind] = {name, meaning},
const sl_event_name sl_event_names[SL_EVENT_KINDS] = {SL_EVENTS(ROW)};

sl_event sl_event_of(sl_event_kind kind, sl_time time, int iteration) {
    return (sl_event){.kind = kind, .time = time, .iteration = iteration, .from = -1, .to = -1, .rank = -1};
}

void sl_event_say(sl_event *event, const char *seen, const char *decided, const char *why) {
    sl_text_fit(event->seen, sizeof event->seen, seen ? seen : "");
    sl_text_fit(event->decided, sizeof event->decided, decided ? decided : "");
    sl_text_fit(event->why, sizeof event->why, why ? why : "");
}

void sl_event_fact(sl_event *event, const char *key, json_t *value) {
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
    size_t used = strlen(event->facts), left = sizeof event->facts - used;
    if (text && snprintf(event->facts + used, left, "%s\"%s\":%s", used ? "," : "", key, text) >= (int)left)
        event->facts[used] = 0;
    free(text);
    json_decref(value);
}

/* NULL: no memory. */
static json_t *facts_of(const sl_event *event) {
    char text[sizeof event->facts + 3];
    snprintf(text, sizeof text, "{%s}", event->facts);
    return json_loads(text, 0, NULL);
}

double sl_event_number(const sl_event *event, const char *key) {
    json_t *facts = facts_of(event);
    const json_t *value = json_object_get(facts, key);
    const double number = json_is_number(value) ? json_number_value(value) : NAN;
    json_decref(facts);
    return number;
}

static int put_facts(json_t *line, const sl_event *event) {
    json_t *facts = facts_of(event);
    int failed = !facts || json_object_update(line, facts) != 0;
    json_decref(facts);
    return failed;
}

static int put_text(json_t *line, const char *key, const char *text) {
    return text[0] ? json_object_set_new(line, key, json_string(text)) : 0;
}

json_t *sl_event_json(const sl_event *event) {
    json_t *line = json_pack("{s:f, s:i, s:s}", "time_s", (double)event->time / 1e9, "iteration",
                             event->iteration, "kind", sl_event_names[event->kind].name);
    int failed = !line;
    if (line && event->from >= 0)
        failed |= json_object_set_new(line, "link", json_pack("[i,i]", event->from, event->to));
    if (line && event->from >= 0 && event->both)
        failed |= json_object_set_new(line, "both", json_true());
    if (line && event->rank >= 0)
        failed |= json_object_set_new(line, "rank", json_integer(event->rank));
    if (line && event->has_replica)
        failed |= json_object_set_new(line, "replica", json_integer(event->replica));
    if (line)
        failed |= put_facts(line, event) | put_text(line, "seen", event->seen) |
                  put_text(line, "decided", event->decided) | put_text(line, "why", event->why);
    if (failed)
        json_decref(line);
    return failed ? NULL : line;
}

sl_status sl_event_line(const sl_event *event, char **line) {
    json_t *object = sl_event_json(event);
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(object);
    *line = text ? realloc(text, strlen(text) + 2) : NULL;
    if (!*line) {
        free(text);
        return sl_error(SL_ENOMEM, "out of memory for an event");
    }
    strcat(*line, "\n");
    return SL_OK;
}
