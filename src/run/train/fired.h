/* Ranks that the run file kills (faults with `kill`) die once: a run that continues does not repeat a death
 * that events.jsonl tells of, or it would never come past it. */
#ifndef SL_RUN_TRAIN_FIRED_H
#define SL_RUN_TRAIN_FIRED_H

#include "run/collective/group.h"
#include "run/file/run.h"

/** Takes those faults out of `run`. Collective; rank 0 reads `folder`. What cannot be read has not happened.
 */
sl_status sl_fired_forget(sl_run *run, const char *folder, sl_group *group);

#endif
