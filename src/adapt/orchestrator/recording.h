/* A recording has all calls to an orchestrator, in order, as text with one JSON object per line. A player
 * repeats the calls, so that an orchestrator gives the same events, actions and decisions, byte for byte. So
 * decisions made on another machine, days ago, can be examined in a debugger or repeated with a changed
 * program.
 *
 * The caller that opens an orchestrator requests it (sl_orchestrator_config.record) and stores the lines; no
 * file is used here. A line's "call" is the function that was called:
 *
 *   open         job, strategies and their costs, problems, first plans (as problem and order), hosts
 *   observe      time, work, clock error, and the measurements of each replica: the members of sl_problem and
 *                sl_measured that differ from the replica's problem in `open`, exactly. A measurement of
 *                several replicas and iterations is written once, in a numbered slot, and then by number
 *   network, estimate, may_leave, improve, keep_sums, moved, offer, report, skip, load
 *   next         an action was requested: id and kind, which a player compares
 *   carried_out
 *
 * A later `open` starts over, like a restarted job. */
#pragma once

#include "adapt/orchestrator/recording_fields.h"

#define SL_RECORDING_FORMAT "slackline-recording-1"
enum { SL_RECORDED_OP = 5 }; /* numbers per op of an order: kind, stage, microbatch, part, paired */

/* ---- writing ---- */

/* The orchestrator records the calls that it accepts. `recording` NULL: nothing is written. SL_ENOMEM. */
typedef struct sl_recording sl_recording;

/** Writes `open`; *recording is NULL if it was not requested. */
sl_status sl_recording_open(const sl_orchestrator_config *config, sl_recording **recording);
void sl_recording_close(sl_recording *recording);
/** The problem that each replica was planned for is the base of its measurements; `planned` NULL: the
 * pipeline is unknown. */
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

/** Makes the call of a line, text[size] without its end. *action is the orchestrator's action, valid until
 * the next line; its `what` is SL_DO_NOTHING if the line is not a `next`. SL_EINVAL, with the line number:
 * the line is damaged, or the orchestrator rejects the call or requests a different action. The next line may
 * be played anyway. SL_ENOMEM. */
sl_status sl_player_line(sl_player *player, const char *text, size_t size, sl_orchestrator_action *action);

/** The player's orchestrator, for its events and decisions; it changes with `open`. NULL before the first. */
sl_orchestrator *sl_player_orchestrator(sl_player *player);
