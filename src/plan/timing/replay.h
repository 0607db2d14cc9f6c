/* The timing model: one replay of a program on ranks and links (design.md, Problem, Semantics). Planner,
 * simulate, the engine's prediction and the campaign all call it; there is no second one. */
#ifndef SL_PLAN_TIMING_REPLAY_H
#define SL_PLAN_TIMING_REPLAY_H

#include "plan/lower/program.h"
#include "plan/timing/timeline.h"

/** Start and end of every op and transfer of `program` with the times and links of `problem` under its
 * communication regime (or another: `regime`, `queue`). Work is O(ops). SL_EINVAL when the regime deadlocks
 * (never decoupled). *timeline is made here; free it. */
sl_status sl_replay(const sl_problem *problem, const sl_program *program, sl_regime regime, int queue,
                    sl_timeline *timeline);

/** Highest memory use of each rank in a replayed timeline: F adds at its start, the others at their end,
 * releases before acquisitions of the same instant. peak[ranks]. */
sl_status sl_peak_memory(const sl_problem *problem, const sl_timeline *timeline, double *peak);

#endif
