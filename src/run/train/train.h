/* The training loop of one rank, and the full course of a run: plan, iterate, measure, adapt, record.
 * Collective: all ranks of the world call it with the same run. */
#pragma once

#include "run/arrange/run_site.h"
#include "run/collective/group.h"
#include "run/file/run.h"

/** Trains. A warning to any rank ends the run on all ranks between the same two iterations, with a
 * checkpoint. Rank 0 prints progress and the table to standard output. The error text names the cause. */
sl_status sl_train(const sl_run *run, const sl_run_site *site, sl_group *world);

/* Ranks that the run file kills (faults with `kill`) die once: a resumed run does not repeat a death that is
 * in events.jsonl, or it would never get past it. */

/** Removes those faults from `run`. Collective; rank 0 reads `folder`. Unreadable events count as not having
 * happened. */
sl_status sl_faults_forget(sl_run *run, const char *folder, sl_group *group);
