/* Repeated replays of a program that changes a little each time: only the steps whose times a change can
 * affect are timed again, by the rules of plan/timing/replay.h and to the ns.
 *
 * The base is a program with the times of all its steps, and with the tail of each: the least time from its
 * start to the end of everything. A run follows the changes forward in the order of time, and stops wherever
 * times stay what they were. Tails end most runs at once, because the start of a changed step plus its tail
 * is a time that the iteration needs. A run that becomes the new base follows the changes backward, too.
 *
 * For decoupled and batched replays without collectives, moves to host memory, pairs, ops without duration,
 * and wires of several ranks. */
#pragma once

#include "plan/timing/replay.h"

typedef struct sl_rerun sl_rerun;

/** The replayer must outlive it, and have its problem's times. *rerun is NULL if there is none for this
 * program. SL_ENOMEM. Free with sl_rerun_close. */
sl_status sl_rerun_open(sl_replayer *replayer, sl_rerun **rerun);
/** Makes the program in its present state the base, by a replay in full. Returns its end; SL_TIME_NEVER:
 * deadlock, and there is no base. */
sl_time sl_rerun_begin(sl_rerun *rerun);
/** Notes that steps `first` to `last` of the rank now come in another order than in the base. At most one
 * for each rank until the next keep or undo. */
void sl_rerun_change(sl_rerun *rerun, int rank, int first, int last);
/** The end of the changed program; SL_TIME_NEVER: deadlock. It gives up and returns SL_TIME_NEVER when a
 * step's new start plus its tail is above `limit`; if a change moves a step ahead of several, that tail may
 * be the old one. One run for each keep or undo. */
sl_time sl_rerun_run(sl_rerun *rerun, sl_time limit);
/** Of the changed program after a run, of the base after an undo; the replayer's. */
const sl_timeline *sl_rerun_timeline(const sl_rerun *rerun);
/** Steps timed, forward and backward, since the last call. */
int64_t sl_rerun_cost(sl_rerun *rerun);
/** The changed program is the base from now on. After a run that did not give SL_TIME_NEVER. */
void sl_rerun_keep(sl_rerun *rerun);
/** The base stays; its times are restored. The caller also restores its program. */
void sl_rerun_undo(sl_rerun *rerun);
/** NULL is fine. */
void sl_rerun_close(sl_rerun *rerun);
