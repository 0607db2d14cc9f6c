/* The orchestrator of a program whose pipeline nobody knows: what is reported slow becomes incidents of the
 * ladder (adapt/ladder), with the losses of unknown.h, and what the ladder wants becomes actions. The
 * functions are those of orchestrator.h, which calls them where sl_orchestrator_config has `unknown`.
 *
 * Reports are noted, and incidents begin, change and end at the next sl_unknown_observe, for a loss is
 * divided among all that is slow. What a strategy has brought is the level when it has settled
 * (sl_unknown_settled). Iterations that become healthy before that are the work of a balance and not the end
 * of the incident: it goes on with nothing lost, because whether the device has recovered cannot be seen from
 * outside. Nor is it the end if a part that something was done about is no longer reported while the program
 * is still slow. */
#ifndef SL_ADAPT_UNKNOWN_PROGRAM_H
#define SL_ADAPT_UNKNOWN_PROGRAM_H

#include "adapt/orchestrator/unknown.h"

typedef struct sl_unknown sl_unknown;

/** Of the configuration counts what is said of strategies and the ladder, and `unknown`. SL_ENOMEM. */
sl_status sl_unknown_open(const sl_orchestrator_config *config, sl_unknown **unknown);
void sl_unknown_close(sl_unknown *unknown);

/** SL_EINVAL: a negative id. SL_ENOMEM. */
sl_status sl_unknown_report(sl_unknown *unknown, const sl_orchestrator_report *report);
/** Without `unknown` in it only time has passed, and reports wait. SL_EINVAL: iteration or time go back;
 * SL_ENOMEM. */
sl_status sl_unknown_observe(sl_unknown *unknown, const sl_orchestrator_iteration *iteration);
int sl_unknown_next(sl_unknown *unknown, sl_orchestrator_action *action);
sl_status sl_unknown_carried_out(sl_unknown *unknown, int id, sl_time now, sl_outcome outcome, sl_time took);

/** An incident's id is its report's. */
const sl_incident_view *sl_unknown_incidents(const sl_unknown *unknown, int *count);
int sl_unknown_considered(const sl_unknown *unknown, int incident, sl_strategy_kind strategy,
                          sl_strategy_view *view);
const sl_unknown_view *sl_unknown_seen(const sl_unknown *unknown);
const char *sl_unknown_decisions(sl_unknown *unknown);

#endif
