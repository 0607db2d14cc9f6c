#include "base/text.h"
#include "notice/watch/advice_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double seconds(sl_time t) {
    return (double)t / 1e9;
}

/* ---- events ---- */

int sl_advice_next(const sl_advice_incident *c) {
    int best = -1;
    for (int s = 0; s < SL_FOREIGN_STRATEGIES; s++) {
        const sl_advice_rung *r = &c->rung[s];
        if (r->reason == SL_REASON_AT_ONCE)
            return s;
        if (r->reason == SL_REASON_WAITS && (best < 0 || r->trigger < c->rung[best].trigger))
            best = s;
    }
    return best;
}

static void rung_text(const sl_advice *a, const sl_advice_incident *c, int s, char *text, size_t size) {
    const sl_advice_rung *r = &c->rung[s];
    char when[48] = "at once";
    switch (r->reason) {
    case SL_REASON_AT_ONCE:
    case SL_REASON_WAITS:
        if (r->reason == SL_REASON_WAITS)
            snprintf(when, sizeof when, "when %.4g s are lost", seconds(r->trigger));
        snprintf(text, size, "%s %s: %.1f %% lost would become %.1f %% for %.4g s", sl_foreign_name(s), when,
                 100 * c->loss, 100 * r->expected, seconds(r->cost));
        break;
    case SL_REASON_NONE:
        snprintf(text, size, "%s: not offered", sl_foreign_name(s));
        break;
    case SL_REASON_OTHER_CAUSE:
    case SL_REASON_CANNOT_HELP:
        snprintf(text, size, "%s: %s", sl_foreign_name(s), r->why[0] ? r->why : "cannot help");
        break;
    case SL_REASON_SKIPPED:
        snprintf(text, size, "%s: pays less (%.1f %% for %.4g s)", sl_foreign_name(s), 100 * r->expected,
                 seconds(r->cost));
        break;
    case SL_REASON_IN_EFFECT:
        snprintf(text, size, "%s: in effect", sl_foreign_name(s));
        break;
    case SL_REASON_FAILED:
        snprintf(text, size, "%s: %s", sl_foreign_name(s),
                 a->config.carried ? "failed three times" : "advised three times");
        break;
    }
}

static void place(const sl_suspect *s, sl_event *event) {
    event->from = event->to = event->rank = -1;
    if (s->component == SL_COMPONENT_LINK) {
        event->from = s->from;
        event->to = s->to;
    } else if (s->component == SL_COMPONENT_DEVICE || s->component == SL_COMPONENT_HOST) {
        event->rank = s->rank;
    }
}

void sl_advice_plan_event(const sl_advice *a, int id, sl_event *event) {
    const sl_advice_incident *c = &a->incident[id];
    int next = sl_advice_next(c);
    char name[64], text[160];
    *event = (sl_event){.kind = SL_EVENT_ADVICE};
    place(&c->slow, event);
    sl_suspect_name(&c->slow, name, sizeof name);
    sl_text_format(
        event->seen, sizeof event->seen,
        "incident %d, %s: %.1f %% of the time is lost, an iteration takes %.4g ms instead of %.4g ms", id,
        name, 100 * c->loss, a->foreign.level_ms, a->foreign.healthy_ms);
    if (next >= 0)
        rung_text(a, c, next, event->decided, sizeof event->decided);
    else
        sl_text_format(event->decided, sizeof event->decided, "nothing that could be done pays");
    for (int s = 0; s < SL_FOREIGN_STRATEGIES; s++)
        if (s != next) {
            rung_text(a, c, s, text, sizeof text);
            sl_text_add(event->why, sizeof event->why, "; ", text);
        }
    sl_text_add(event->why, sizeof event->why, "; ", SL_FOREIGN_LEFT_OUT);
}

void sl_advice_action_event(const sl_advice *a, const sl_advice_action *action, sl_event *event) {
    char name[64];
    size_t used = 0;
    *event = (sl_event){.kind = SL_EVENT_ADVICE, .from = -1, .to = -1, .rank = -1};
    if (action->count > 0)
        place(&a->incident[action->incidents[0]].slow, event);
    for (int i = 0; i < action->count && used + 80 < sizeof event->seen; i++) {
        sl_suspect_name(&a->incident[action->incidents[i]].slow, name, sizeof name);
        used += (size_t)snprintf(event->seen + used, sizeof event->seen - used, "%sincident %d, %s",
                                 i ? "; " : "", action->incidents[i], name);
    }
    if (action->undo) {
        sl_text_format(event->decided, sizeof event->decided, "undo %s", sl_foreign_name(action->strategy));
        sl_text_format(event->why, sizeof event->why, "nothing is slow, and keeping it has lost %.4g s",
                       seconds(action->lost));
        return;
    }
    sl_text_format(event->decided, sizeof event->decided, "apply %s now: %.1f %% lost should become %.1f %%",
                   sl_foreign_name(action->strategy), 100 * action->loss, 100 * action->expected);
    sl_text_format(event->why, sizeof event->why, "%.4g s are lost and it costs %.4g s%s",
                   seconds(action->lost), seconds(action->cost),
                   a->config.carried ? "" : "; nobody carries it out (--on-event)");
}

/* ---- the live line ---- */

void sl_advice_line(const sl_advice *a, char *text, size_t size) {
    char when[48] = "at once";
    text[0] = 0;
    if (a->number) {
        snprintf(text, size, "%s%s is being carried out", a->undo ? "undo " : "",
                 sl_foreign_name(a->strategy));
        return;
    }
    for (int i = 0; i < SL_ADVICE_INCIDENTS; i++) {
        const sl_advice_incident *c = &a->incident[i];
        int next = c->active && c->loss > 0 ? sl_advice_next(c) : -1;
        if (next < 0)
            continue;
        if (c->rung[next].reason == SL_REASON_WAITS)
            snprintf(when, sizeof when, "when %.4g s are lost", seconds(c->rung[next].trigger));
        snprintf(text, size, "advice: %s %s, %.0f %% -> %.0f %%", sl_foreign_name(next), when, 100 * c->loss,
                 100 * c->rung[next].expected);
        return;
    }
}

/* ---- JSON ---- */

static const char *state_of(sl_ladder_reason reason) {
    static const char *const names[] = {[SL_REASON_NONE] = "not offered",
                                        [SL_REASON_OTHER_CAUSE] = "cannot help",
                                        [SL_REASON_CANNOT_HELP] = "cannot help",
                                        [SL_REASON_SKIPPED] = "left out",
                                        [SL_REASON_IN_EFFECT] = "in effect",
                                        [SL_REASON_FAILED] = "failed",
                                        [SL_REASON_WAITS] = "waits",
                                        [SL_REASON_AT_ONCE] = "at once"};
    return names[reason];
}

static json_t *rung_json(const sl_advice_incident *c, int s) {
    const sl_advice_rung *r = &c->rung[s];
    int useful = r->reason == SL_REASON_WAITS || r->reason == SL_REASON_AT_ONCE ||
                 r->reason == SL_REASON_SKIPPED || r->reason == SL_REASON_IN_EFFECT;
    return json_pack("{s:s, s:s, s:o, s:f, s:o, s:s}", "strategy", sl_foreign_name(s), "state",
                     state_of(r->reason), "expected_loss",
                     useful && isfinite(r->expected) ? json_real(r->expected) : json_null(), "cost_s",
                     seconds(r->cost), "when_lost_s",
                     r->reason == SL_REASON_WAITS ? json_real(seconds(r->trigger)) : json_null(), "why",
                     useful ? "" : r->why);
}

json_t *sl_advice_incident_json(const sl_advice *a, int id) {
    if (id < 0 || id >= SL_ADVICE_INCIDENTS || !a->incident[id].used)
        return NULL;
    const sl_advice_incident *c = &a->incident[id];
    json_t *object = sl_suspect_to_json(&c->slow);
    if (object && (json_object_set_new(object, "id", json_integer(id)) != 0 ||
                   json_object_set_new(object, "loss", json_real(c->active ? c->loss : 0)) != 0)) {
        json_decref(object);
        return NULL;
    }
    return object;
}

json_t *sl_advice_json(const sl_advice *a) {
    json_t *list = json_array();
    for (int i = 0; i < SL_ADVICE_INCIDENTS; i++) {
        const sl_advice_incident *c = &a->incident[i];
        json_t *object = c->used && c->active ? sl_advice_incident_json(a, i) : NULL;
        if (!object)
            continue;
        json_t *rungs = json_array();
        for (int s = 0; s < SL_FOREIGN_STRATEGIES; s++)
            json_array_append_new(rungs, rung_json(c, s));
        json_object_set_new(object, "strategies", rungs);
        json_object_set_new(object, "in_effect",
                            c->strategy >= 0 ? json_string(sl_foreign_name(c->strategy)) : json_null());
        json_array_append_new(list, object);
    }
    return json_pack("{s:o, s:o, s:b}", "incidents", list, "under_way",
                     a->number ? json_string(sl_foreign_name(a->strategy)) : json_null(), "carried_out",
                     a->config.carried);
}

/* ---- the decision log ---- */

void sl_advice_entry_text(const sl_advice *a, const sl_ladder_entry *e, char *text, size_t size) {
    int s = sl_advice_strategy(a, e->strategy);
    const sl_advice_incident *c = e->id >= 0 && e->id < SL_ADVICE_INCIDENTS ? &a->incident[e->id] : NULL;
    if (!a->config.carried && e->kind == SL_LADDER_FAILED && s >= 0) {
        snprintf(text, size, "%s: nobody carries it out", sl_foreign_words(s));
        return;
    }
    if (!a->config.carried && e->kind == SL_LADDER_CONSIDERED && e->reason == SL_REASON_FAILED && s >= 0) {
        snprintf(text, size, "  %s: advised three times", sl_foreign_words(s));
        return;
    }
    sl_ladder_entry_text(a->ladder, e, text, size);
    size_t used = strlen(text);
    int is_no = e->reason == SL_REASON_CANNOT_HELP || e->reason == SL_REASON_OTHER_CAUSE;
    if (e->kind == SL_LADDER_CONSIDERED && is_no && s >= 0 && c && c->rung[s].why[0] && used + 1 < size)
        snprintf(text + used, size - used, " (%s)", c->rung[s].why);
}

int sl_advice_any(const sl_advice *a) {
    size_t count;
    sl_ladder_log(a->ladder, &count);
    return count > 0;
}

void sl_advice_print(const sl_advice *a, FILE *out) {
    const sl_foreign *f = &a->foreign;
    char text[384];
    size_t count;
    const sl_ladder_entry *log = sl_ladder_log(a->ladder, &count);
    fprintf(
        out,
        "%d ranks on %d node%s; %d that make the same calls are taken for replicas of %d microbatches each; "
        "%d spare host%s\n",
        f->ranks, f->nodes, f->nodes == 1 ? "" : "s", f->replicas, f->config.microbatches, f->config.spares,
        f->config.spares == 1 ? "" : "s");
    for (int s = 0; s < SL_FOREIGN_STRATEGIES; s++)
        if (f->config.cost_s[s] >= 0)
            fprintf(out, "%s (%s): costs %.4g s until it has been carried out\n", sl_foreign_words(s),
                    sl_foreign_name(s), f->config.cost_s[s]);
        else
            fprintf(out, "%s (%s): not offered\n", sl_foreign_words(s), sl_foreign_name(s));
    fprintf(out, "%s\n%s\n\n", SL_FOREIGN_LEFT_OUT,
            a->config.carried ? "actions are handed to the program of --on-event"
                              : "actions are advice: nobody carries them out (--on-event)");
    for (size_t i = 0; i < count; i++) {
        sl_advice_entry_text(a, &log[i], text, sizeof text);
        fprintf(out, "%10.3f s  %s\n", seconds(log[i].time), text);
    }
}
