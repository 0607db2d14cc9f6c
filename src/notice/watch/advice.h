/* What would be done about the job's slow devices and links, and what is: the verdicts of a watched job as
 * the orchestrator (adapt/orchestrator/orchestrator.h) is told of them, and its answers in words. It decides;
 * here each verdict gets the id of its component, and events, the live line, /status.json and the decision
 * log their sentences. No clock, no process: a test plays it on times of its own.
 *
 * An action is handed to `act`: whoever carries it out says how it ended (sl_advice_ended). Where nobody
 * does, it stays an advice. An advice is told once, and again when another strategy is recommended or the
 * trouble comes again after healthy iterations; its numbers alone may change without a word. */
#pragma once

#include "adapt/orchestrator/unknown.h"
#include "base/event.h"
#include "notice/control/job_status.h"

#include <jansson.h>

/** "balance", "topology", "restart": for options, hooks and JSON; NULL: needs a pipeline that is known. */
const char *sl_advice_name(sl_strategy_kind strategy);

/* What whoever can change the program offers. */
typedef struct sl_advice_offer {
    double cost_s[SL_STRATEGY_KINDS]; /* until one has been carried out; negative: not offered */
    int microbatches;                 /* of a rank and iteration, at least 1 */
    int spares;                       /* hosts that could take another's place */
} sl_advice_offer;

/** 5 s, 60 s, 1800 s (Falcon, sections 5.3 and 7.5), 8 microbatches, no spare host. */
sl_advice_offer sl_advice_offer_defaults(void);

typedef struct sl_advice sl_advice;

typedef struct sl_advice_config {
    sl_advice_offer offer;
    int carried; /* somebody carries actions out; else `act` is not called */
    void (*tell)(void *context, const sl_event *event);
    /* To be carried out now; `event` tells it. */
    void (*act)(void *context, const sl_orchestrator_action *action, const sl_event *event);
    void *context;
} sl_advice_config;

/** SL_EINVAL, SL_ENOMEM. */
sl_status sl_advice_open(const sl_advice_config *config, sl_advice **advice);
void sl_advice_close(sl_advice *advice);

/** What is known at `now` (ns, never goes back), with the time that its events bear (`told`: since the
 * controller's start). NULL: nothing new, time has passed. SL_ENOMEM. */
sl_status sl_advice_view(sl_advice *advice, sl_time now, sl_time told, const sl_status_view *view);

/** Action `id` has ended after `took`; `said` is told. One that is not under way does nothing. */
sl_status sl_advice_ended(sl_advice *advice, sl_time now, sl_time told, int id, sl_outcome outcome,
                          sl_time took, const char *said);

/** In a few words for the live line: "advice: balance when 5 s are lost, 44 % -> 9 %"; "" . */
void sl_advice_line(const sl_advice *advice, char *text, size_t size);
/** The object `advice` of /status.json (docs/watching.md); the caller's. NULL: no memory. */
json_t *sl_advice_json(const sl_advice *advice);
/** An incident as JSON, for the hook; NULL: no memory, or there is none with this id. */
json_t *sl_advice_incident_json(const sl_advice *advice, int id);
/** The microbatches that balance would give each rank, a list, for the hook; NULL: not known one by one. */
json_t *sl_advice_split_json(const sl_advice *advice);
/** The decision log, with what it rests on, to be freed with free(); NULL: nothing was decided. SL_ENOMEM. */
sl_status sl_advice_text(const sl_advice *advice, char **text);
