/* The orchestrator of a training job (Adaptra, section 3: it sits between the profiler and any scheduler). It
 * finds slow components, their cost and a mitigation, and checks whether that helped. It serves every body
 * that can measure and change a job: `train`, `campaign`, `watch`, a program through the library.
 *
 *   record            an op, a message or a sum as it happened; the body's
 *   measured problem  times of a replica's ops, links and sums in an iteration (measured.h)
 *   incident          a slow component, from its onset to its relief: suspect, then verdict; with its loss
 *   action            a change with cost and gain: a plan, a path, a layout, a restart, a network measurement
 *   event             for users
 *
 * The body opens a job with its shape, first plans and supported strategies. After each iteration it passes
 * the measurements (any part may be missing), reads events and actions until there are none, carries out the
 * actions between two iterations and reports their outcomes. Nothing here reads a clock, opens a file or
 * starts anything; the same inputs in the same order give the same events and actions, byte for byte.
 *
 * Inside (each with one file):
 *   steps      one iteration: a row, incidents, actions and their outcomes
 *   history    measured problems of the last iterations and the healthy level: the only store and baseline
 *   compare    finds slow components: history against healthy, by one set of thresholds
 *   common     common load of two devices, from changes
 *   loads      whether the work of iterations has grown
 *   naming     onsets and verdicts: named components, or "cannot tell"
 *   cases      present slow components, by process; cards: links of a process with equal delays
 *   pairs      the last measurement of the network, for two processes and for a card
 *   losses     the loss of an iteration, divided among cases
 *   incidents  cases reported to the ladder and to users
 *   asked      cache of answers to recurring questions about plans
 *   plans      each replica's running and waiting plans; plans_new: candidates
 *   strategies schedule, delegates, balance, topology, restart as rungs of one ladder (adapt/ladder)
 *   events     sentences
 *   recording  its inputs as text, and their replay
 *
 * One thread at a time. Times are ns of the body's clock, which never goes back. */
#pragma once

#include "adapt/orchestrator/orchestrator_types.h"
#include "base/event.h"

struct sl_unknown_view;

/* ---- opening ---- */

extern const char *const sl_strategy_words[SL_STRATEGY_KINDS];    /* "adapt the schedule", ... */
extern const char *const sl_strategy_keys[SL_STRATEGY_KINDS + 1]; /* "schedule", ..., NULL: in files */

/** Defaults: hold 5, dwell 20, gain 0.02, cost 5 ms, 5 ms, 1 s, 30 s, 600 s (undo the same, restart 0), all
 * else 0. */
sl_orchestrator_config sl_orchestrator_defaults(void);

/** Copies what it needs. SL_EINVAL with the reason; SL_ENOMEM. Close with sl_orchestrator_close. */
sl_status sl_orchestrator_open(const sl_orchestrator_config *config, sl_orchestrator **orchestrator);
void sl_orchestrator_close(sl_orchestrator *orchestrator);

/* ---- input ---- */

/** One iteration has ended. The same number again: only time has passed. SL_EINVAL: measurements of another
 * shape, or the number or time goes back; SL_ENOMEM. */
sl_status sl_orchestrator_observe(sl_orchestrator *o, const sl_orchestrator_iteration *iteration);

/** The number of further iterations, equal to the last one observed, without any event or action: a
 * simulation may skip them (but must observe the one after). 0: the next one may have one. INT_MAX: until a
 * measurement changes. `each`: duration of one. */
int sl_orchestrator_idle(const sl_orchestrator *o, sl_time each);
/** That many iterations have passed, at most sl_orchestrator_idle(); `now` is the time after them. */
sl_status sl_orchestrator_skip(sl_orchestrator *o, int iterations, sl_time now);

sl_status sl_orchestrator_report_slow(sl_orchestrator *o, sl_time now, const sl_orchestrator_report *report);

/** All pairs measured now. Only this shows which pair is slow in a sum over several replicas. */
sl_status sl_orchestrator_network(sl_orchestrator *o, sl_time now, const sl_network_measure *measure,
                                  int count);

/** Changes the estimated cost of a strategy. */
sl_status sl_orchestrator_estimate(sl_orchestrator *o, sl_strategy_kind strategy, sl_time cost);
/** Whether the job can be restarted without this host; initially true for all hosts. */
sl_status sl_orchestrator_may_leave(sl_orchestrator *o, const char *host, int may);
/** The body has changed layout and plans on a user's request; `plan` has each replica's running plan.
 * Copied. */
sl_status sl_orchestrator_moved(sl_orchestrator *o, const sl_job_layout *layout, const sl_plan *const *plan);
/** From now on, if nothing is slow, a better first plan is an action like the others: with the first
 * iteration, for the problems, and then for measured times. `work`: of the search for it; 0: none. SL_EINVAL.
 */
sl_status sl_orchestrator_improve(sl_orchestrator *o, long long work);
/** Gradients are summed over replicas during an iteration: from now on (1), in all plans the backwards of
 * each rank's stages end in the same order as in its first plan. */
sl_status sl_orchestrator_keep_sums(sl_orchestrator *o, int keep);
/** A plan for a replica from a longer search: considered with the next new plans. */
sl_status sl_orchestrator_offer(sl_orchestrator *o, int replica, const sl_plan *plan);

/* ---- output ---- */

/** The next event; 0: none. Its time is of the body's clock, ranks are pipeline ranks of a replica. */
int sl_orchestrator_event(sl_orchestrator *o, sl_event *event);

/** The next action; 0: none. It must be answered by sl_orchestrator_carried_out, immediately or iterations
 * later; until then there is no other. */
int sl_orchestrator_next(sl_orchestrator *o, sl_orchestrator_action *action);

/** Reports the outcome, and the cost in job time. Ignores an id that is not under way. */
sl_status sl_orchestrator_carried_out(sl_orchestrator *o, int id, sl_time now, sl_outcome outcome,
                                      sl_time took);

/* ---- queries ---- */

/** The plan that a replica should run now; the orchestrator's, until it changes. NULL: the pipeline is
 * unknown. */
const sl_plan *sl_orchestrator_plan(const sl_orchestrator *o, int replica);
/** Whether that differs from its first plan in this layout. */
int sl_orchestrator_adapted(const sl_orchestrator *o, int replica);
/** The layout as carried out so far. */
const sl_job_layout *sl_orchestrator_layout(const sl_orchestrator *o);
/** Expected time of a replica's next ops, from the last measurements, ns. */
sl_status sl_orchestrator_forecast(sl_orchestrator *o, int replica, sl_time *time);
/** A replica's recent problem, for a longer search (sl_orchestrator_offer). Free with sl_problem_free.
 * SL_ENONE: nothing was measured, or nothing is slow. */
sl_status sl_orchestrator_question(sl_orchestrator *o, int replica, sl_problem *problem);

/** The *count open incidents, the costliest first; the orchestrator's until its next call. */
const sl_incident_view *sl_orchestrator_incidents(const sl_orchestrator *o, int *count);
/** Returns 0: no such incident. A finished one is available until its id is reused. */
int sl_orchestrator_considered(const sl_orchestrator *o, int incident, sl_strategy_kind strategy,
                               sl_strategy_view *view);
/** The model of a program with an unknown pipeline; NULL: the pipeline is known. */
const struct sl_unknown_view *sl_orchestrator_unknown(const sl_orchestrator *o);
/** Whether any component or the iterations are slow. */
int sl_orchestrator_troubled(const sl_orchestrator *o);

/** Considered strategies, decisions and reasons since the last call, as lines with their ends; NULL: none.
 * The orchestrator's until its next call. */
const char *sl_orchestrator_decisions(sl_orchestrator *o);

/* ---- a resume ---- */

/** Baseline, learned costs and open incidents as one JSON text; free with free(). SL_ENOMEM. */
sl_status sl_orchestrator_save(const sl_orchestrator *o, char **text);
/** Restores a save into an orchestrator just opened with the same shape. SL_EINVAL: another shape, or
 * damaged. */
sl_status sl_orchestrator_load(sl_orchestrator *o, const char *text);
