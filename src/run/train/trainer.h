/* The training loop of one rank, and the whole path of a run: plan, iterate, measure, adapt, write down.
 * Collective: all ranks of the world call it with the same run. */
#pragma once

#include "run/arrange/run_site.h"
#include "run/collective/group.h"
#include "run/file/run.h"

/** Trains; a warning that any rank has got ends the run on all ranks between the same two iterations, with a
 * checkpoint. Rank 0 prints progress and the table to standard output. The error text names the cause. */
sl_status sl_train(const sl_run *run, const sl_run_site *place, sl_group *world);

/* Ranks that the run file kills (faults with `kill`) die once: a run that continues does not repeat a death
 * that events.jsonl tells of, or it would never come past it. */

/** Takes those faults out of `run`. Collective; rank 0 reads `folder`. What cannot be read has not happened.
 */
sl_status sl_fired_forget(sl_run *run, const char *folder, sl_group *group);
