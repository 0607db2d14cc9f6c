/* The orchestrator of a program with an unknown pipeline: reports become incidents of the ladder
 * (adapt/ladder), with the losses of unknown.h, and the ladder's choices become actions. orchestrator.h calls
 * these functions if sl_orchestrator_config has `unknown`.
 *
 * Reports are stored, and incidents begin, change and end at the next sl_unknown_observe, because the loss is
 * divided among all slow parts. The body says with each iteration whether iterations are slow. If it gives
 * only their times, these are watched here (naming.h), and a report lasts until its relief.
 *
 * The effect of a strategy is the level after it has settled (sl_unknown_settled). If iterations become
 * healthy before that, the cause is the balance, not the end of the incident, unless reports last: the
 * incident continues without loss, because recovery of the device is not visible from outside. The incident
 * also continues if a mitigated part is no longer reported while the program is still slow. */
#pragma once

#include "adapt/orchestrator/unknown.h"

typedef struct sl_unknown sl_unknown;

/** Uses only the configuration of strategies, ladder and hosts, and `unknown`. SL_ENOMEM. */
sl_status sl_unknown_open(sl_orchestrator *o, const sl_orchestrator_config *config);
void sl_unknown_close(sl_unknown *unknown);

/** SL_EINVAL: a negative id. SL_ENOMEM. */
sl_status sl_unknown_report(sl_orchestrator *o, const sl_orchestrator_report *report);
/** Without `unknown` and a time in `iteration`, only time passes, and reports wait. SL_ENOMEM. */
sl_status sl_unknown_observe(sl_orchestrator *o, const sl_orchestrator_iteration *iteration);
int sl_unknown_next(sl_orchestrator *o, sl_orchestrator_action *action);
sl_status sl_unknown_carried_out(sl_orchestrator *o, int id, sl_time now, sl_outcome outcome, sl_time took);

/** An incident's id is its report's. */
const sl_incident_view *sl_unknown_incidents(const sl_orchestrator *o, int *count);
/** Why a strategy would not help for an incident; returns 0: no such incident. */
int sl_unknown_why_not(const sl_orchestrator *o, int incident, sl_strategy_kind strategy, char *text,
                       size_t size);
const sl_unknown_view *sl_unknown_seen(const sl_unknown *unknown);
