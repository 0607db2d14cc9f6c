/* What would be done about the job's slow devices and links, and what is: the ladder (adapt/ladder/ladder.h)
 * over the verdicts of a watched job, with the model of foreign.h. Views go in; events, actions and a
 * decision log come out. No clock, no process: a test plays it on times of its own.
 *
 * A verdict's component is an incident from the view that names it until its relief, or until a later verdict
 * of the same slow phase no longer names it. Its loss follows the level of iteration times. When the ladder
 * says apply or undo, `act` is called: whoever carries it out says how it ended (sl_advice_ended). Where
 * nobody does, it stays an advice. An advice is told once, and again when another strategy is recommended or
 * the trouble comes again after healthy iterations; its numbers alone may change without a word.
 *
 * What an application brought is the level SETTLE iterations and seconds later, or the first change that is
 * seen before. Iterations that become healthy in that time are the work of a balance, not the end of the
 * incident: it goes on with nothing lost, for whether the device itself has recovered cannot be seen from
 * outside. */
#ifndef SL_NOTICE_WATCH_ADVICE_H
#define SL_NOTICE_WATCH_ADVICE_H

#include "base/event.h"
#include "notice/watch/foreign.h"

#include <jansson.h>
#include <stdio.h>

typedef struct sl_advice sl_advice;

/* To be carried out now. */
typedef struct sl_advice_action {
    int64_t number; /* of the action, for sl_advice_ended */
    int undo;       /* else apply */
    int strategy;   /* sl_foreign_strategy */
    const int *incidents;
    int count;
    double loss, expected; /* a second, of these incidents together; undo: 0 */
    sl_time cost, lost;    /* expected to take; lost so far */
    const sl_event *event; /* that tells it */
} sl_advice_action;

typedef struct sl_advice_config {
    sl_foreign_config foreign;
    int carried; /* somebody carries actions out; else `act` is not called */
    void (*tell)(void *context, const sl_event *event);
    void (*act)(void *context, const sl_advice_action *action);
    void *context;
} sl_advice_config;

/** SL_EINVAL, SL_ENOMEM. */
sl_status sl_advice_open(const sl_advice_config *config, sl_advice **advice);
void sl_advice_close(sl_advice *advice);

/** What is known at `now` (ns, never goes back), with the time that its events bear (`told`: since the
 * controller's start). SL_ENOMEM. */
sl_status sl_advice_view(sl_advice *advice, sl_time now, sl_time told, const sl_status_view *view);
/** Time has passed. */
sl_status sl_advice_step(sl_advice *advice, sl_time now, sl_time told);

typedef enum sl_advice_outcome { SL_ADVICE_DONE, SL_ADVICE_FAILED, SL_ADVICE_REFUSED } sl_advice_outcome;

/** Action `number` has ended after `took`; `said` is told. REFUSED: this strategy is not asked for again. One
 * that is not under way does nothing. */
sl_status sl_advice_ended(sl_advice *advice, sl_time now, sl_time told, int64_t number,
                          sl_advice_outcome outcome, sl_time took, const char *said);

/** In a few words for the live line: "balance microbatches when 5 s are lost: 44 % -> 9 %"; "" . */
void sl_advice_line(const sl_advice *advice, char *text, size_t size);
/** The object `advice` of /status.json (docs/watching.md); the caller's. NULL: no memory. */
json_t *sl_advice_json(const sl_advice *advice);
/** An incident as JSON, for the hook; NULL: no memory, or there is none with this id. */
json_t *sl_advice_incident_json(const sl_advice *advice, int id);
/** What the model counts on. */
const sl_foreign *sl_advice_foreign(const sl_advice *advice);
/** Whether there is anything in the decision log. */
int sl_advice_any(const sl_advice *advice);
/** The decision log, with what it rests on. */
void sl_advice_print(const sl_advice *advice, FILE *out);

#endif
