/* A recording: everything that an orchestrator was given, in order, as text, one JSON object a line; and a
 * player, which gives it to an orchestrator again, so that events, actions and decisions come out again, byte
 * for byte: what was decided on another machine, days ago, can be looked at in a debugger, and by a changed
 * program.
 *
 * Whoever opens an orchestrator asks for it (sl_orchestrator_config.record) and does with the lines what it
 * likes; here no file is touched. A line's "call" is the function that was called:
 *
 *   open         job, strategies and their costs, problems, first plans (which a problem and an order make
 * again), hosts observe      time, work, clock error, and of each replica what was measured: by the members
 * of sl_problem and sl_measured that differ from the replica's problem in `open`, exactly. One measurement
 * may be given for several replicas and iterations, and the orchestrator knows it again: it is kept in a
 * numbered slot, and told by the number network, estimate, may_leave, moved, offer, report, skip, load next
 * it asked for something: id and kind, which a player compares carried_out
 *
 * An `open` after others begins again, as a job does that is started anew. */
#pragma once

#include "adapt/orchestrator/orchestrator.h"

#define SL_RECORDING_FORMAT "slackline-recording-1"
enum { SL_RECORDED_OP = 5 }; /* numbers of an op of an order: kind, stage, microbatch, part, paired */

/* ---- writing ---- */

/* The orchestrator does it, of calls that it does not refuse. `recording` NULL: nothing is written.
 * SL_ENOMEM. */

typedef struct sl_recording sl_recording;

typedef enum sl_recorded_call {
    SL_CALL_OPEN,
    SL_CALL_OBSERVE,
    SL_CALL_REPORT,
    SL_CALL_NETWORK,
    SL_CALL_MOVED,
    SL_CALL_OFFER,
    SL_CALL_SKIP,
    SL_CALL_ESTIMATE,
    SL_CALL_MAY_LEAVE,
    SL_CALL_LOAD,
    SL_CALL_NEXT,
    SL_CALL_CARRIED_OUT,
    SL_RECORDED_CALLS
} sl_recorded_call;

/* Numbers and the text of a call, but for those that have a struct. */
typedef struct sl_recorded_values {
    int id, outcome, strategy, iterations, may, replica, what;
    sl_time now, took, cost;
    const char *text;
} sl_recorded_values;

/** Writes `open`; *recording is NULL where nobody asked for it. */
sl_status sl_recording_open(const sl_orchestrator_config *config, sl_recording **recording);
void sl_recording_close(sl_recording *recording);
/** What each replica was planned for is the base of what was measured; `planned` NULL: a program whose
 * pipeline nobody knows. */
sl_status sl_recording_observe(sl_recording *recording, const sl_problem *const *planned,
                               const sl_orchestrator_iteration *iteration);
sl_status sl_recording_report(sl_recording *recording, sl_time now, const sl_orchestrator_report *report);
sl_status sl_recording_network(sl_recording *recording, sl_time now, const sl_network_measure *measure,
                               int count);
sl_status sl_recording_moved(sl_recording *recording, const sl_job_layout *layout,
                             const sl_plan *const *plan);
sl_status sl_recording_offer(sl_recording *recording, int replica, const sl_plan *plan);
/** All others. */
sl_status sl_recording_call(sl_recording *recording, sl_recorded_call call, sl_recorded_values given);

/* ---- playing ---- */

typedef struct sl_player sl_player;

/** Close with sl_player_close. SL_ENOMEM. */
sl_status sl_player_open(sl_player **player);
void sl_player_close(sl_player *player);

/** Makes the call of a line, text[size] without its end. *action is what the orchestrator asked for, until
 * the next line; `what` is SL_DO_NOTHING where the line is no `next`. SL_EINVAL: the line is damaged, the
 * orchestrator refuses the call, or asks for something else than it did; with the line's number. The next
 * line may be played all the same. SL_ENOMEM. */
sl_status sl_player_line(sl_player *player, const char *text, size_t size, sl_orchestrator_action *action);

/** The orchestrator that plays, for its events and decisions; it changes with `open`. NULL before the first.
 */
sl_orchestrator *sl_player_orchestrator(sl_player *player);
