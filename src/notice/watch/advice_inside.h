/* Shared by the files of the advice.
 *
 *   advice       verdicts are reported, actions are followed
 *   advice_words texts: events, the live line, JSON, the decision log */
#pragma once

#include "adapt/orchestrator/orchestrator.h"
#include "notice/watch/advice.h"

#include <stdio.h>

enum { SL_ADVICE_COMPONENTS = 33 }; /* the first has id 1 */

/* A component named by a verdict; its index is the id of its incidents. */
typedef struct sl_advice_component {
    sl_suspect slow;
    int used;
    int named;   /* by the last verdicts */
    int planned; /* reported: the next strategy + 2; 0: nothing */
    int called;  /* advised, and no program carries it out: the strategy to apply now + 1; 0: none */
} sl_advice_component;

struct sl_advice {
    sl_advice_config config;
    sl_orchestrator *orchestrator;
    sl_advice_component component[SL_ADVICE_COMPONENTS];
    int iteration, slow;
    int acting; /* `action` is being carried out (its incidents are no longer known) */
    sl_orchestrator_action action;
    FILE *log; /* decisions, into text[size] */
    char *text;
    size_t size;
};

/** Whether the incident is still open, and if so *view. */
int sl_advice_lasts(const sl_advice *advice, int id, sl_incident_view *view);
/** The next strategy for an incident; -1: none. */
int sl_advice_next(const sl_advice *advice, int id);
/** The event of the plan for an open incident, with the reasons against the other strategies. */
void sl_advice_plan_event(const sl_advice *advice, const sl_incident_view *incident, sl_event *event);
/** The event of an action that is due. */
void sl_advice_action_event(const sl_advice *advice, const sl_orchestrator_action *action, sl_event *event);
