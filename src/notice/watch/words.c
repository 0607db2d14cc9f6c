#include "notice/watch/words.h"
#include "base/json.h"

json_t *sl_words_suspects_json(const sl_suspect *suspect, int count) {
    json_t *list = json_array();
    for (int i = 0; list && i < count; i++)
        if (json_array_append_new(list, sl_suspect_to_json(&suspect[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* Times that are not known yet are null. */
static json_t *time_of(double ms) {
    return ms > 0 ? sl_json_finite(ms) : json_null();
}

static json_t *iteration_of(int64_t iteration) {
    return iteration >= 0 ? json_integer(iteration) : json_null();
}

json_t *sl_words_status_json(const sl_status_view *v) {
    return json_pack(
        "{s:s, s:b, s:i, s:i, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:i, s:i, s:o, s:i, "
        "s:i, s:b, s:I}",
        "state", sl_watch_phase_name(v->phase), "slow", v->slow, "nodes", v->nodes, "ranks", v->ranks,
        "period_calls", v->period > 0 ? json_integer(v->period) : json_null(), "iterations",
        (json_int_t)(v->iteration + 1), "iteration_ms", time_of(v->time_ms), "level_ms", time_of(v->level_ms),
        "healthy_ms", time_of(v->healthy_ms), "onset_iteration", iteration_of(v->onset), "suspects",
        sl_words_suspects_json(v->suspect, v->suspects), "verdicts",
        sl_words_suspects_json(v->verdict, v->verdicts), "calls", (json_int_t)v->calls, "records_lost",
        (json_int_t)v->lost, "holds", v->holds, "holds_closed", v->closed, "held_ms",
        sl_json_finite(v->held_ms), "onsets", v->onsets, "reliefs", v->reliefs, "store_connected",
        v->connected, "messages_refused", (json_int_t)v->refused);
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
    case SL_COMPONENT_LOAD:
    case SL_COMPONENT_STAGES:
    case SL_COMPONENT_UNKNOWN:
        break;
    }
    return 1;
}
