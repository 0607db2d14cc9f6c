/* Advice for the job's slow devices and links: reports the verdicts of a watched job to the orchestrator
 * (adapt/orchestrator/orchestrator.h), which decides, and words its answers. Here each verdict gets the id of
 * its component, and events, the live line, /status.json and the decision log get their sentences. No clock,
 * no process: a test runs it on its own times.
 *
 * An action is handed to `act`; sl_advice_ended reports its result. If actions are not carried out, they stay
 * advice. An advice is reported once, and again if another strategy is recommended or the slowdown returns
 * after healthy iterations; changes of its numbers alone are not reported. */
#pragma once

#include "adapt/orchestrator/unknown.h"
#include "base/event.h"
#include "notice/control/job_status.h"

#include <jansson.h>

/** "balance", "topology", "restart": for options, hooks and JSON; NULL: requires a known pipeline. */
const char *sl_advice_name(sl_strategy_kind strategy);

/* What the program or its operator can change. */
typedef struct sl_advice_offer {
    double cost_s[SL_STRATEGY_KINDS]; /* until one has been carried out; negative: not available */
    int microbatches;                 /* per rank and iteration, at least 1 */
    int spares;                       /* hosts that can replace another */
} sl_advice_offer;

/** 5 s, 60 s, 1800 s (Falcon, sections 5.3 and 7.5), 8 microbatches, no spare host. */
sl_advice_offer sl_advice_offer_defaults(void);

typedef struct sl_advice sl_advice;

typedef struct sl_advice_config {
    sl_advice_offer offer;
    int carried; /* actions are carried out; otherwise `act` is not called */
    void (*report)(void *context, const sl_event *event);
    /* An action to carry out now; `event` describes it. */
    void (*act)(void *context, const sl_orchestrator_action *action, const sl_event *event);
    void *context;
} sl_advice_config;

/** SL_EINVAL, SL_ENOMEM. */
sl_status sl_advice_open(const sl_advice_config *config, sl_advice **advice);
void sl_advice_close(sl_advice *advice);

/** The state at `now` (ns, never goes back); `reported`: the time for its events (since the controller's
 * start). NULL: nothing new, only time has passed. SL_ENOMEM. */
sl_status sl_advice_view(sl_advice *advice, sl_time now, sl_time reported, const sl_status_view *view);

/** Action `id` has ended after `took`; `said` is copied to its event. Ignored for an action that is not under
 * way. */
sl_status sl_advice_ended(sl_advice *advice, sl_time now, sl_time reported, int id, sl_outcome outcome,
                          sl_time took, const char *said);

/** In a few words for the live line: "advice: balance after 5 s of lost time, 44% -> 9%"; "". */
void sl_advice_line(const sl_advice *advice, char *text, size_t size);
/** The object `advice` of /status.json (docs/watching.md); owned by the caller. NULL: no memory. */
json_t *sl_advice_json(const sl_advice *advice);
/** An incident as JSON, for the hook; NULL: no memory, or no such id. */
json_t *sl_advice_incident_json(const sl_advice *advice, int id);
/** The microbatches that balance would give each rank, a list, for the hook; NULL: not known per rank. */
json_t *sl_advice_split_json(const sl_advice *advice);
/** The decision log, with the inputs of the decisions, to be freed with free(); NULL: no decisions.
 * SL_ENOMEM. */
sl_status sl_advice_text(const sl_advice *advice, char **text);
