#include "notice/control/controller_inside.h"

#include "base/text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static sl_event blank(const sl_control_core *c, sl_event_kind kind) {
    return sl_event_of(kind, c->now - c->begun, (int)(c->view.iteration > 0 ? c->view.iteration : 0));
}

static void send(sl_control_core *c, const sl_event *event) {
    if (c->given.event)
        c->given.event(c->given.context, event);
}

void sl_control_report_fact(sl_control_core *c, sl_event_kind kind, const char *seen, const char *decided,
                            const char *why, const char *key, json_t *value) {
    sl_event event = blank(c, kind);
    sl_event_say(&event, seen, decided, why);
    sl_event_fact(&event, key, value);
    send(c, &event);
}

void sl_control_report(sl_control_core *c, sl_event_kind kind, const char *seen, const char *decided,
                       const char *why) {
    sl_control_report_fact(c, kind, seen, decided, why, "", NULL);
}

void sl_control_report_suspect(sl_control_core *c, sl_event_kind kind, const sl_suspect *suspect,
                               const char *decided, const char *why) {
    sl_event event = blank(c, kind);
    char seen[sizeof event.seen];
    sl_suspect_text(suspect, seen, sizeof seen);
    sl_event_say(&event, seen, decided, why && !strstr(seen, why) ? why : NULL); /* else in `seen` */
    sl_event_fact(&event, "component", json_string(sl_component_name(suspect->component)));
    if (suspect->component == SL_COMPONENT_LINK) {
        event.from = suspect->from;
        event.to = suspect->to;
        event.both = suspect->both;
    } else if (suspect->component == SL_COMPONENT_DEVICE || suspect->component == SL_COMPONENT_HOST) {
        event.rank = suspect->rank;
    }
    send(c, &event);
}

void sl_control_report_change(sl_control_core *c, const sl_change *change, int64_t iteration,
                              const char *decided) {
    sl_event event = blank(c, change->kind == SL_CHANGE_ONSET ? SL_EVENT_ONSET : SL_EVENT_RELIEF);
    event.iteration = (int)iteration;
    sl_text_format(event.seen, sizeof event.seen, "an iteration takes %.4g ms instead of %.4g ms (%+.1f%%)",
                   change->after, change->before,
                   change->before > 0 ? 100 * (change->after / change->before - 1) : 0.0);
    sl_text_fit(event.decided, sizeof event.decided, decided ? decided : "");
    sl_event_fact(&event, "iteration_ms", json_real(change->after));
    sl_event_fact(&event, "former_ms", json_real(change->before));
    send(c, &event);
}

void sl_control_because(sl_control_core *c, const char *format, ...) {
    va_list more;
    va_start(more, format);
    vsnprintf(c->reason, sizeof c->reason, format, more);
    va_end(more);
}

void sl_suspects_text(const sl_suspect *suspect, int count, char *text, size_t size) {
    text[0] = 0;
    for (int i = 0; i < count; i++) {
        char one[512];
        sl_suspect_text(&suspect[i], one, sizeof one);
        sl_text_add(text, size, "; ", one);
    }
}
