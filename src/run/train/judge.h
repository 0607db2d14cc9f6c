/* The rank that leads, behind each iteration: from the records of all ranks to each replica's timeline and
 * measurements, to the decisions about schedules and paths, and to the lines of the journal. */
#ifndef SL_RUN_TRAIN_JUDGE_H
#define SL_RUN_TRAIN_JUDGE_H

#include "run/arrange/state.h"

/** From what was gathered of an iteration that began at `begin` to each replica's decision, the events and
 * the pending line of the journal. */
sl_status sl_judge(sl_trainer *t, int iteration, sl_time begin);

/** What the decisions of all replicas say together: delegates for everybody (-1: none any more; 0: no
 * change). */
int sl_judge_delegates(const sl_trainer *t);

#endif
