/* Incidents of a program whose pipeline nobody knows: what is reported slow becomes incidents of the ladder,
 * with the losses of unknown.h, and the ladder's strategies ask here what they would leave.
 *
 * Reports are noted, and the ladder hears of them at the next sl_unknown_follow, for a loss is divided among
 * all that is slow. What a strategy has brought is the level when it has settled (sl_unknown_settled).
 * Iterations that become healthy before that are the work of a balance and not the end of the incident: it
 * goes on with nothing lost, because whether the device has recovered cannot be seen from outside. Nor is it
 * the end if a part that something was done about is no longer reported while the program is still slow. */
#ifndef SL_ADAPT_UNKNOWN_INCIDENTS_H
#define SL_ADAPT_UNKNOWN_INCIDENTS_H

#include "adapt/ladder/ladder.h"
#include "adapt/orchestrator/unknown.h"

typedef struct sl_unknown_incident {
    sl_orchestrator_report report; /* the last; its id is the incident's */
    int lasts;
    int named;    /* reported, and not over */
    int place;    /* among the parts of the model; -1: not there */
    int awaited;  /* something was done about it, and what that has brought is not measured yet */
    int strategy; /* the last that was carried out while it lasts; -1 */
    int since;    /* iteration */
    double loss;  /* as the ladder was told */
} sl_unknown_incident;

typedef struct sl_unknown sl_unknown;

/** The program as far as it is known. SL_ENOMEM. Close with sl_unknown_close. */
sl_status sl_unknown_open(const sl_unknown_job *job, sl_unknown **unknown);
void sl_unknown_close(sl_unknown *unknown);

/** Noted until the next sl_unknown_follow. SL_EINVAL: a negative id. SL_ENOMEM. */
sl_status sl_unknown_report(sl_unknown *unknown, const sl_orchestrator_report *report);
/** The program is now `job` (while it is not slow its levels do not count; NULL: as before, and reports
 * wait). Incidents of `ladder` begin, change and end. Not while something is being applied: what is seen then
 * is neither before nor after it. SL_EINVAL and SL_ENOMEM as the ladder. */
sl_status sl_unknown_follow(sl_unknown *unknown, sl_ladder *ladder, int iteration, sl_time now,
                            const sl_unknown_job *job);
/** A strategy was applied or undone for these incidents, or refused. To be called before sl_ladder_ended. */
void sl_unknown_carried_out(sl_unknown *unknown, sl_strategy_kind strategy, int undo, const int *incidents,
                            int count, sl_outcome outcome, int iteration, sl_time now);

/** What the ladder asks (adapt/ladder/strategy.h). */
double sl_unknown_leaves(const sl_unknown *unknown, sl_strategy_kind strategy, const sl_incident *incident);
/** As sl_unknown_why, of an incident. */
void sl_unknown_reason(const sl_unknown *unknown, sl_strategy_kind strategy, int incident, char *text,
                       size_t size);

/** What the model counts on: until the next call that changes it. */
sl_unknown_view sl_unknown_seen(const sl_unknown *unknown);
/** Every incident, those that are over, too, until their place is needed. The pointer, until the next report.
 */
const sl_unknown_incident *sl_unknown_incidents(const sl_unknown *unknown, int *count);

#endif
