#include "base/memory.h"
#include "base/text.h"
#include "notice/watch/advice_inside.h"
#include "notice/watch/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT_ONCE (100 * SL_MS) /* cheaper actions need no wait */

sl_advice_offer sl_advice_offer_defaults(void) {
    return (sl_advice_offer){.cost_s = {-1, -1, 5, 60, 1800}, .microbatches = 8};
}

/* ---- opening ---- */

static sl_status open_orchestrator(sl_advice *a) {
    const sl_advice_offer *offer = &a->config.offer;
    sl_unknown_job job = {.microbatches = offer->microbatches, .spares = offer->spares, .lightest = -1};
    sl_orchestrator_config config = sl_orchestrator_defaults();
    config.unknown = &job;
    config.at_once = AT_ONCE;
    for (sl_strategy_kind s = 0; s < SL_STRATEGY_KINDS; s++) {
        double cost = offer->cost_s[s];
        if (!(cost < 9e8))
            return sl_error(SL_EINVAL, "%s costs %g s; at most 9e8", sl_advice_name(s), cost);
        if (cost < 0 || !sl_advice_name(s))
            continue;
        config.can |= 1u << s;
        config.cost[s] = config.undo[s] = (sl_time)llround(cost * 1e9);
    }
    return sl_orchestrator_open(&config, &a->orchestrator);
}

sl_status sl_advice_open(const sl_advice_config *config, sl_advice **advice) {
    sl_advice *a;
    if (config->offer.microbatches < 1)
        return sl_error(SL_EINVAL, "a rank has %d microbatches", config->offer.microbatches);
    SL_TRY(sl_alloc(&a, 1, sizeof *a));
    a->config = *config;
    a->log = open_memstream(&a->text, &a->size);
    sl_status status =
        a->log ? open_orchestrator(a) : sl_error(SL_ENOMEM, "out of memory for the decision log");
    if (status == SL_OK)
        *advice = a;
    else
        sl_advice_close(a);
    return status;
}

void sl_advice_close(sl_advice *a) {
    if (!a)
        return;
    sl_orchestrator_close(a->orchestrator);
    if (a->log)
        fclose(a->log);
    free(a->text);
    sl_free(a);
}

int sl_advice_lasts(const sl_advice *a, int id, sl_incident_view *view) {
    int count;
    const sl_incident_view *list = sl_orchestrator_incidents(a->orchestrator, &count);
    for (int i = 0; i < count; i++)
        if (list[i].id == id) {
            *view = list[i];
            return 1;
        }
    return 0;
}

/* ---- reports ---- */

/* A component keeps its id for good; if there are too many, those that have recovered give theirs away. */
static int id_for(sl_advice *a, const sl_suspect *slow) {
    sl_incident_view view;
    int free_id = -1, well = -1;
    for (int i = SL_ADVICE_COMPONENTS - 1; i > 0; i--)
        if (!a->component[i].used)
            free_id = i;
        else if (sl_words_same(&a->component[i].slow, slow))
            return i;
        else if (!a->component[i].named && !sl_advice_lasts(a, i, &view))
            well = i;
    int id = free_id >= 0 ? free_id : well;
    if (id >= 0)
        a->component[id] = (sl_advice_component){.used = 1};
    return id;
}

/* Neither a grown workload nor an unknown component is a part that an action can help. */
static int is_part(const sl_suspect *s) {
    return s->component == SL_COMPONENT_DEVICE || s->component == SL_COMPONENT_HOST ||
           s->component == SL_COMPONENT_LINK || s->component == SL_COMPONENT_GROUP;
}

/* How many times as slow; times grow, rates fall. 1: not known. */
static double times_of(const sl_suspect *s) {
    double ratio = s->expected > 0 && s->measured > 0 ? s->measured / s->expected : 1;
    return ratio < 1 ? 1 / ratio : ratio;
}

static sl_orchestrator_report report_of(const sl_suspect *s, int id) {
    sl_orchestrator_report report = {.id = id, .loss = -1, .host = s->component == SL_COMPONENT_HOST};
    char name[64], text[512];
    report.part = (sl_slow_part){.kind = SL_PART_DEVICE, .a = s->rank, .b = -1, .slowdown = times_of(s)};
    if (s->component == SL_COMPONENT_LINK || s->component == SL_COMPONENT_GROUP) {
        report.part.kind = SL_PART_LINK;
        report.part.a = s->from;
        report.part.b = s->to;
    }
    sl_suspect_name(s, name, sizeof name);
    sl_suspect_text(s, text, sizeof text);
    sl_text_fit(report.seen, sizeof report.seen, strlen(text) < sizeof report.seen ? text : name);
    return report;
}

/* The verdicts of a slow phase. */
static sl_status report_verdicts(sl_advice *a, sl_time now, const sl_status_view *view) {
    int named[SL_ADVICE_COMPONENTS] = {0};
    for (int k = 0; k < view->verdicts && k < SL_STATUS_SUSPECTS; k++) {
        const sl_suspect *slow = &view->verdict[k];
        int id = is_part(slow) ? id_for(a, slow) : -1;
        if (id < 0 || named[id])
            continue;
        sl_orchestrator_report report = report_of(slow, id);
        named[id] = a->component[id].named = 1;
        a->component[id].slow = *slow;
        SL_TRY(sl_orchestrator_report_slow(a->orchestrator, now, &report));
    }
    for (int id = 0; id < SL_ADVICE_COMPONENTS; id++)
        if (a->component[id].named && !named[id]) {
            sl_orchestrator_report report = {.id = id, .over = 1, .loss = -1};
            a->component[id].named = 0;
            SL_TRY(sl_orchestrator_report_slow(a->orchestrator, now, &report));
        }
    return SL_OK;
}

/* A slowdown that returns after healthy iterations is reported again. */
static void forget_reported(sl_advice *a) {
    for (int id = 0; id < SL_ADVICE_COMPONENTS; id++)
        a->component[id].planned = a->component[id].called = a->component[id].named = 0;
}

static sl_unknown_job program_of(const sl_advice *a, const sl_status_view *view) {
    return (sl_unknown_job){.ranks = view->ranks,
                            .nodes = view->nodes,
                            .replicas =
                                view->alike > 0 && view->alike < view->ranks ? view->alike : view->ranks,
                            .microbatches = a->config.offer.microbatches,
                            .spares = a->config.offer.spares,
                            .lightest = view->lightest,
                            .healthy = view->healthy_ms * 1e6,
                            .level = view->level_ms * 1e6,
                            .slow = view->slow,
                            .changes = view->onsets + view->reliefs};
}

/* ---- actions ---- */

static void report(const sl_advice *a, sl_event *event, sl_time reported) {
    event->time = reported;
    event->iteration = a->iteration;
    if (a->config.report)
        a->config.report(a->config.context, event);
}

/* No program carries it out: whether one of its incidents has not been reported with it. */
static int is_new(sl_advice *a, const sl_orchestrator_action *action) {
    int new_to_one = 0, called = (int)action->strategy + 1;
    for (int i = 0; i < action->count; i++) {
        sl_advice_component *c = &a->component[action->incidents[i]];
        new_to_one |= c->called != called;
        c->called = called;
    }
    return new_to_one;
}

static sl_status act(sl_advice *a, sl_time now, sl_time reported, const sl_orchestrator_action *action) {
    sl_event event;
    int carried = a->config.carried && a->config.act;
    sl_advice_action_event(a, action, &event);
    if (carried || is_new(a, action))
        report(a, &event, reported);
    if (!carried)
        return sl_orchestrator_carried_out(a->orchestrator, action->id, now, SL_OUTCOME_ADVISED, 0);
    a->acting = 1;
    a->action = *action;
    a->config.act(a->config.context, action, &event);
    return SL_OK;
}

/* Once, and again if the next strategy changes; other numbers alone are not reported. */
static void report_plans(sl_advice *a, sl_time reported) {
    for (int id = 0; id < SL_ADVICE_COMPONENTS; id++) {
        sl_advice_component *c = &a->component[id];
        sl_incident_view incident;
        sl_event event;
        if (!c->used || !sl_advice_lasts(a, id, &incident) || incident.awaited || incident.loss <= 0)
            continue;
        int plan = sl_advice_next(a, id) + 2;
        if (plan == c->planned)
            continue;
        c->planned = plan;
        c->called = 0;
        sl_advice_plan_event(a, &incident, &event);
        report(a, &event, reported);
    }
}

/* Reads the orchestrator's answers. Its events are left to the controller, which has already reported onsets
 * and verdicts. */
static sl_status follow(sl_advice *a, sl_time now, sl_time reported) {
    sl_orchestrator_action action;
    sl_event event;
    const char *decisions;
    int any = 1;
    for (int turn = 0; any && turn < 2 * SL_STRATEGY_KINDS; turn++) {
        while (sl_orchestrator_event(a->orchestrator, &event))
            continue;
        report_plans(a, reported);
        any = !a->acting && sl_orchestrator_next(a->orchestrator, &action);
        if (any)
            SL_TRY(act(a, now, reported, &action));
    }
    while ((decisions = sl_orchestrator_decisions(a->orchestrator)))
        fputs(decisions, a->log);
    return SL_OK;
}

sl_status sl_advice_view(sl_advice *a, sl_time now, sl_time reported, const sl_status_view *view) {
    sl_orchestrator_iteration seen = {.now = now};
    sl_unknown_job program;
    if (view && view->phase == SL_PHASE_ENDED)
        return SL_OK;
    if (view && view->iteration > a->iteration)
        a->iteration = (int)view->iteration;
    if (a->acting && !a->action.undo) /* the current state is neither before nor after it */
        return SL_OK;
    if (view && view->slow && view->verdicts > 0)
        SL_TRY(report_verdicts(a, now, view));
    if (view && !view->slow && a->slow)
        forget_reported(a);
    if (view && (!view->slow || view->verdicts > 0)) { /* the slow component is known */
        program = program_of(a, view);
        seen.unknown = &program;
    }
    a->slow = view ? view->slow : a->slow;
    seen.iteration = a->iteration;
    SL_TRY(sl_orchestrator_observe(a->orchestrator, &seen));
    return follow(a, now, reported);
}

sl_status sl_advice_ended(sl_advice *a, sl_time now, sl_time reported, int id, sl_outcome outcome,
                          sl_time took, const char *said) {
    sl_event event = sl_event_of(SL_EVENT_HOOK, 0, 0);
    if (!a->acting || id != a->action.id)
        return SL_OK;
    a->acting = 0;
    SL_TRY(sl_orchestrator_carried_out(a->orchestrator, id, now, outcome, took));
    sl_text_format(event.seen, sizeof event.seen, "%s%s: %s", a->action.undo ? "undo " : "",
                   sl_advice_name(a->action.strategy), said);
    sl_text_format(event.decided, sizeof event.decided, "%s",
                   outcome == SL_OUTCOME_REFUSED ? "not asked for again"
                   : outcome != SL_OUTCOME_DONE  ? "not carried out"
                   : a->action.undo              ? "undone"
                                                 : "carried out");
    sl_event_fact(&event, "strategy", json_string(sl_advice_name(a->action.strategy)));
    sl_event_fact(&event, "outcome",
                  json_string(outcome == SL_OUTCOME_REFUSED ? "refused"
                              : outcome == SL_OUTCOME_DONE  ? "done"
                                                            : "failed"));
    report(a, &event, reported);
    return follow(a, now, reported);
}
