#include "notice/watch/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

const char *sl_words_component(sl_component component) {
    static const char *const names[] = {[SL_COMPONENT_UNKNOWN] = "unknown",
                                        [SL_COMPONENT_DEVICE] = "device",
                                        [SL_COMPONENT_LINK] = "link",
                                        [SL_COMPONENT_HOST] = "host",
                                        [SL_COMPONENT_GROUP] = "group"};
    return (size_t)component < sizeof names / sizeof *names ? names[component] : names[0];
}

void sl_words_suspect(const sl_suspect *s, char *text, size_t size) {
    switch (s->component) {
    case SL_COMPONENT_DEVICE:
    case SL_COMPONENT_HOST:
        snprintf(text, size, "%s of rank %d", sl_words_component(s->component), s->rank);
        return;
    case SL_COMPONENT_LINK:
        snprintf(text, size, "link %d %s %d", s->from, s->both ? "<->" : "->", s->to);
        return;
    case SL_COMPONENT_GROUP:
        snprintf(text, size, "group %016" PRIx64, s->group);
        return;
    case SL_COMPONENT_UNKNOWN:
        break;
    }
    snprintf(text, size, "cannot tell");
}

/* JSON has no infinity. */
static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *sl_words_suspect_json(const sl_suspect *s) {
    char name[64], group[24];
    sl_words_suspect(s, name, sizeof name);
    snprintf(group, sizeof group, "%016" PRIx64, s->group);
    json_t *object = json_pack("{s:s, s:s}", "component", sl_words_component(s->component), "name", name);
    int failed = !object;
    if (object && s->rank >= 0 && (s->component == SL_COMPONENT_DEVICE || s->component == SL_COMPONENT_HOST))
        failed |= json_object_set_new(object, "rank", json_integer(s->rank));
    if (object && s->component == SL_COMPONENT_LINK)
        failed |= json_object_set_new(object, "from", json_integer(s->from)) |
                  json_object_set_new(object, "to", json_integer(s->to)) |
                  json_object_set_new(object, "both", json_boolean(s->both));
    if (object && s->component == SL_COMPONENT_GROUP)
        failed |= json_object_set_new(object, "group", json_string(group));
    if (object)
        failed |= json_object_set_new(object, "measured", number(s->measured)) |
                  json_object_set_new(object, "expected", number(s->expected)) |
                  json_object_set_new(object, "cause", s->cause[0] ? json_string(s->cause) : json_null()) |
                  json_object_set_new(object, "why", json_string(s->why));
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

json_t *sl_words_suspects_json(const sl_suspect *suspect, int count) {
    json_t *list = json_array();
    for (int i = 0; list && i < count; i++)
        if (json_array_append_new(list, sl_words_suspect_json(&suspect[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* Times that are not known yet are null. */
static json_t *time_of(double ms) {
    return ms > 0 ? number(ms) : json_null();
}

static json_t *iteration_of(int64_t iteration) {
    return iteration >= 0 ? json_integer(iteration) : json_null();
}

json_t *sl_words_status_json(const sl_status_view *v) {
    return json_pack(
        "{s:s, s:b, s:i, s:i, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:i, s:i, s:o, s:i, "
        "s:i, s:b}",
        "state", sl_phase_name(v->phase), "slow", v->slow, "nodes", v->nodes, "ranks", v->ranks,
        "period_calls", v->period > 0 ? json_integer(v->period) : json_null(), "iterations",
        (json_int_t)(v->iteration + 1), "iteration_ms", time_of(v->time_ms), "level_ms", time_of(v->level_ms),
        "healthy_ms", time_of(v->healthy_ms), "onset_iteration", iteration_of(v->onset), "suspects",
        sl_words_suspects_json(v->suspect, v->suspects), "verdicts",
        sl_words_suspects_json(v->verdict, v->verdicts), "calls", (json_int_t)v->calls, "records_lost",
        (json_int_t)v->lost, "holds", v->holds, "holds_closed", v->closed, "held_ms", number(v->held_ms),
        "onsets", v->onsets, "reliefs", v->reliefs, "store_connected", v->connected);
}

int sl_words_same(const sl_suspect *a, const sl_suspect *b) {
    if (a->component != b->component)
        return 0;
    switch (a->component) {
    case SL_COMPONENT_DEVICE:
    case SL_COMPONENT_HOST:
        return a->rank == b->rank;
    case SL_COMPONENT_LINK:
        return a->from == b->from && a->to == b->to;
    case SL_COMPONENT_GROUP:
        return a->group == b->group;
    case SL_COMPONENT_UNKNOWN:
        break;
    }
    return 1;
}
