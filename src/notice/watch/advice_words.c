#include "base/memory.h"
#include "base/text.h"
#include "notice/watch/advice_inside.h"

#include <math.h>
#include <string.h>

#define LEFT_OUT "adapt the schedule, delegate: left out, the program's pipeline is not known"
#define FIRST SL_STRATEGY_BALANCE /* of the strategies that need no pipeline */

const char *sl_advice_name(sl_strategy_kind strategy) {
    static const char *const names[SL_STRATEGY_KINDS] = {[SL_STRATEGY_BALANCE] = "balance",
                                                         [SL_STRATEGY_TOPOLOGY] = "topology",
                                                         [SL_STRATEGY_RESTART] = "restart"};
    return names[strategy];
}

static double seconds(sl_time t) {
    return (double)t / 1e9;
}

static sl_strategy_view considered(const sl_advice *a, int id, sl_strategy_kind strategy) {
    sl_strategy_view view;
    if (!sl_orchestrator_considered(a->orchestrator, id, strategy, &view))
        return (sl_strategy_view){.reason = SL_REASON_NONE};
    return view;
}

int sl_advice_next(const sl_advice *a, int id) {
    sl_time trigger = 0;
    int best = -1;
    for (sl_strategy_kind s = FIRST; s < SL_STRATEGY_KINDS; s++) {
        sl_strategy_view v = considered(a, id, s);
        if (v.reason == SL_REASON_AT_ONCE)
            return (int)s;
        if (v.reason == SL_REASON_WAITS && (best < 0 || v.trigger < trigger)) {
            best = (int)s;
            trigger = v.trigger;
        }
    }
    return best;
}

/* ---- events ---- */

static void when_text(const sl_strategy_view *v, char *text, size_t size) {
    if (v->reason == SL_REASON_WAITS)
        snprintf(text, size, "after %.4g s of lost time", seconds(v->trigger));
    else
        snprintf(text, size, "now");
}

static void strategy_text(const sl_advice *a, const sl_incident_view *incident, sl_strategy_kind s,
                          char *text, size_t size) {
    sl_strategy_view v = considered(a, incident->id, s);
    char when[48];
    int used = snprintf(text, size, "%s", sl_advice_name(s));
    text += used;
    size -= (size_t)used;
    switch (v.reason) {
    case SL_REASON_AT_ONCE:
    case SL_REASON_WAITS:
        when_text(&v, when, sizeof when);
        snprintf(text, size, " %s (time lost %.1f%%, would be %.1f%%; cost %.4g s)", when,
                 100 * incident->loss, 100 * v.expected, seconds(v.cost));
        break;
    case SL_REASON_NONE:
        snprintf(text, size, ": not offered");
        break;
    case SL_REASON_OTHER_CAUSE:
    case SL_REASON_CANNOT_HELP:
        snprintf(text, size, ": %s", v.why[0] ? v.why : "no gain predicted");
        break;
    case SL_REASON_SKIPPED:
        snprintf(text, size, ": pays less (time lost would be %.1f%%; cost %.4g s)", 100 * v.expected,
                 seconds(v.cost));
        break;
    case SL_REASON_IN_EFFECT:
        snprintf(text, size, ": in effect");
        break;
    case SL_REASON_FAILED:
        snprintf(text, size, ": %s", a->config.carried ? "failed three times" : "advised three times");
        break;
    }
}

/* An event about a component. */
static sl_event event_about(const sl_suspect *s) {
    sl_event event = sl_event_of(SL_EVENT_ADVICE, 0, 0);
    if (s->component == SL_COMPONENT_LINK) {
        event.from = s->from;
        event.to = s->to;
        event.both = s->both;
    } else if (s->component == SL_COMPONENT_DEVICE || s->component == SL_COMPONENT_HOST) {
        event.rank = s->rank;
    }
    return event;
}

void sl_advice_plan_event(const sl_advice *a, const sl_incident_view *incident, sl_event *event) {
    const sl_suspect *slow = &a->component[incident->id].slow;
    const sl_unknown_job *job = sl_orchestrator_unknown(a->orchestrator)->job;
    int next = sl_advice_next(a, incident->id);
    char name[64], text[160];
    *event = event_about(slow);
    sl_suspect_name(slow, name, sizeof name);
    sl_text_format(event->seen, sizeof event->seen,
                   "incident %d, %s: time lost %.1f%%, an iteration takes %.4g ms instead of %.4g ms",
                   incident->id, name, 100 * incident->loss, job->level / 1e6, job->healthy / 1e6);
    if (next >= 0) {
        strategy_text(a, incident, (sl_strategy_kind)next, event->decided, sizeof event->decided);
        sl_event_fact(event, "strategy", json_string(sl_advice_name((sl_strategy_kind)next)));
    } else {
        sl_text_format(event->decided, sizeof event->decided, "no strategy pays off");
    }
    for (sl_strategy_kind s = FIRST; s < SL_STRATEGY_KINDS; s++)
        if ((int)s != next) {
            strategy_text(a, incident, s, text, sizeof text);
            sl_text_add(event->why, sizeof event->why, "; ", text);
        }
    sl_text_add(event->why, sizeof event->why, "; ", LEFT_OUT);
}

void sl_advice_action_event(const sl_advice *a, const sl_orchestrator_action *action, sl_event *event) {
    const char *strategy = sl_advice_name(action->strategy);
    char name[64], text[96];
    *event = event_about(&a->component[action->incidents[0]].slow);
    for (int i = 0; i < action->count; i++) {
        sl_suspect_name(&a->component[action->incidents[i]].slow, name, sizeof name);
        snprintf(text, sizeof text, "incident %d, %s", action->incidents[i], name);
        sl_text_add(event->seen, sizeof event->seen, i ? "; " : "", text);
    }
    sl_event_fact(event, "strategy", json_string(strategy));
    sl_event_fact(event, "action", json_string(action->undo ? "undo" : "apply"));
    if (action->undo) {
        sl_text_format(event->decided, sizeof event->decided, "undo %s", strategy);
        sl_text_format(event->why, sizeof event->why, "nothing is slow, and keeping it has cost %.4g s",
                       seconds(action->lost));
        return;
    }
    sl_event_fact(event, "expected_loss", json_real(action->expected));
    sl_text_format(event->decided, sizeof event->decided, "apply %s now: time lost %.1f%%, predicted %.1f%%",
                   strategy, 100 * action->loss, 100 * action->expected);
    sl_text_format(event->why, sizeof event->why, "lost so far %.4g s, cost %.4g s%s", seconds(action->lost),
                   seconds(action->cost),
                   a->config.carried ? "" : "; no program carries it out (--on-event)");
}

/* ---- the live line ---- */

void sl_advice_line(const sl_advice *a, char *text, size_t size) {
    text[0] = 0;
    if (a->acting)
        snprintf(text, size, "%s%s is being carried out", a->action.undo ? "undo " : "",
                 sl_advice_name(a->action.strategy));
    for (int id = 0; id < SL_ADVICE_COMPONENTS && !text[0]; id++) {
        sl_incident_view incident;
        char when[48];
        int next = sl_advice_lasts(a, id, &incident) && incident.loss > 0 ? sl_advice_next(a, id) : -1;
        if (next < 0)
            continue;
        sl_strategy_view v = considered(a, id, (sl_strategy_kind)next);
        when_text(&v, when, sizeof when);
        snprintf(text, size, "advice: %s %s, %.0f%% -> %.0f%%", sl_advice_name((sl_strategy_kind)next), when,
                 100 * incident.loss, 100 * v.expected);
    }
}

/* ---- JSON ---- */

static json_t *strategy_json(const sl_advice *a, int id, sl_strategy_kind s) {
    static const char *const states[] = {[SL_REASON_NONE] = "not offered",
                                         [SL_REASON_OTHER_CAUSE] = "cannot help",
                                         [SL_REASON_CANNOT_HELP] = "cannot help",
                                         [SL_REASON_SKIPPED] = "left out",
                                         [SL_REASON_IN_EFFECT] = "in effect",
                                         [SL_REASON_FAILED] = "failed",
                                         [SL_REASON_WAITS] = "waits",
                                         [SL_REASON_AT_ONCE] = "at once"};
    sl_strategy_view v = considered(a, id, s);
    int useful = v.reason == SL_REASON_WAITS || v.reason == SL_REASON_AT_ONCE ||
                 v.reason == SL_REASON_SKIPPED || v.reason == SL_REASON_IN_EFFECT;
    return json_pack("{s:s, s:s, s:o, s:f, s:o, s:s}", "strategy", sl_advice_name(s), "state",
                     states[v.reason], "expected_loss",
                     useful && isfinite(v.expected) ? json_real(v.expected) : json_null(), "cost_s",
                     seconds(v.cost), "when_lost_s",
                     v.reason == SL_REASON_WAITS ? json_real(seconds(v.trigger)) : json_null(), "why",
                     useful ? "" : v.why);
}

json_t *sl_advice_incident_json(const sl_advice *a, int id) {
    sl_incident_view incident;
    if (id < 0 || id >= SL_ADVICE_COMPONENTS || !a->component[id].used)
        return NULL;
    double loss = sl_advice_lasts(a, id, &incident) ? incident.loss : 0;
    json_t *object = sl_suspect_to_json(&a->component[id].slow);
    if (object && (json_object_set_new(object, "id", json_integer(id)) != 0 ||
                   json_object_set_new(object, "loss", json_real(loss)) != 0)) {
        json_decref(object);
        return NULL;
    }
    return object;
}

json_t *sl_advice_json(const sl_advice *a) {
    json_t *list = json_array();
    for (int id = 0; id < SL_ADVICE_COMPONENTS; id++) {
        sl_incident_view incident;
        json_t *object = sl_advice_lasts(a, id, &incident) ? sl_advice_incident_json(a, id) : NULL;
        if (!object)
            continue;
        json_t *strategies = json_array();
        const char *in_effect = NULL;
        for (sl_strategy_kind s = FIRST; s < SL_STRATEGY_KINDS; s++) {
            json_array_append_new(strategies, strategy_json(a, id, s));
            in_effect = considered(a, id, s).in_effect ? sl_advice_name(s) : in_effect;
        }
        json_object_set_new(object, "strategies", strategies);
        json_object_set_new(object, "in_effect", in_effect ? json_string(in_effect) : json_null());
        json_array_append_new(list, object);
    }
    return json_pack("{s:o, s:s?, s:b}", "incidents", list, "under_way",
                     a->acting ? sl_advice_name(a->action.strategy) : NULL, "carried_out", a->config.carried);
}

json_t *sl_advice_split_json(const sl_advice *a) {
    const sl_unknown_view *view = sl_orchestrator_unknown(a->orchestrator);
    json_t *list = NULL;
    int *split;
    if (view->job->ranks < 1 || sl_alloc(&split, (size_t)view->job->ranks, sizeof *split) != SL_OK)
        return NULL;
    if (sl_unknown_split(view, split) == SL_OK)
        list = json_array();
    for (int i = 0; list && i < view->job->ranks; i++)
        json_array_append_new(list, json_integer(split[i]));
    sl_free(split);
    return list;
}

/* ---- the decision log ---- */

sl_status sl_advice_text(const sl_advice *a, char **text) {
    const sl_unknown_job *job = sl_orchestrator_unknown(a->orchestrator)->job;
    size_t size = 0;
    *text = NULL;
    if (fflush(a->log) != 0)
        return sl_error(SL_ENOMEM, "out of memory for the decision log");
    if (!a->size)
        return SL_OK;
    FILE *out = open_memstream(text, &size);
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for the decision log");
    fprintf(out,
            "%d ranks on %d node%s; %d that make the same calls count as replicas of %d microbatches each; "
            "%d spare host%s\n",
            job->ranks, job->nodes, job->nodes == 1 ? "" : "s", job->replicas, job->microbatches, job->spares,
            job->spares == 1 ? "" : "s");
    for (sl_strategy_kind s = FIRST; s < SL_STRATEGY_KINDS; s++) {
        fprintf(out, "%s (%s): ", sl_strategy_words[s], sl_advice_name(s));
        if (a->config.offer.cost_s[s] >= 0)
            fprintf(out, "estimated cost %.4g s, until it has been carried out once\n",
                    a->config.offer.cost_s[s]);
        else
            fprintf(out, "not offered\n");
    }
    fprintf(out, "%s\n%s\n\n%s", LEFT_OUT,
            a->config.carried ? "actions are handed to the program of --on-event"
                              : "actions are advice: no program carries them out (--on-event)",
            a->text);
    return fclose(out) == 0 ? SL_OK : sl_error(SL_ENOMEM, "out of memory for the decision log");
}
