/* The orchestrator of a program whose pipeline nobody knows: what is reported slow becomes incidents of the
 * ladder (adapt/ladder), with the losses of unknown.h, and what the ladder wants becomes actions. The
 * functions are those of orchestrator.h, which calls them where sl_orchestrator_config has `unknown`.
 *
 * Reports are noted, and incidents begin, change and end at the next sl_unknown_observe, for a loss is
 * divided among all that is slow. Whether iterations are slow the body says with each iteration. Where it
 * does not, but gives their times, these are watched here (naming.h): then a report lasts until it is over.
 *
 * What a strategy has brought is the level when it has settled (sl_unknown_settled). Iterations that become
 * healthy before that are the work of a balance and not the end of the incident, unless reports last: it goes
 * on with nothing lost, because whether the device has recovered cannot be seen from outside. Nor is it the
 * end if a part that something was done about is no longer reported while the program is still slow. */
#pragma once

#include "adapt/orchestrator/unknown.h"

typedef struct sl_unknown sl_unknown;

/** Of the configuration counts what is said of strategies and the ladder, hosts, and `unknown`. SL_ENOMEM. */
sl_status sl_unknown_open(sl_orchestrator *o, const sl_orchestrator_config *config);
void sl_unknown_close(sl_unknown *unknown);

/** SL_EINVAL: a negative id. SL_ENOMEM. */
sl_status sl_unknown_report(sl_orchestrator *o, const sl_orchestrator_report *report);
/** Without `unknown` in it and without its time only time has passed, and reports wait. SL_ENOMEM. */
sl_status sl_unknown_observe(sl_orchestrator *o, const sl_orchestrator_iteration *iteration);
int sl_unknown_next(sl_orchestrator *o, sl_orchestrator_action *action);
sl_status sl_unknown_carried_out(sl_orchestrator *o, int id, sl_time now, sl_outcome outcome, sl_time took);

/** An incident's id is its report's. */
const sl_incident_view *sl_unknown_incidents(const sl_orchestrator *o, int *count);
/** Why a strategy would be of no use for an incident; 0: there is no such incident. */
int sl_unknown_why_not(const sl_orchestrator *o, int incident, sl_strategy_kind strategy, char *text,
                       size_t size);
const sl_unknown_view *sl_unknown_seen(const sl_unknown *unknown);
