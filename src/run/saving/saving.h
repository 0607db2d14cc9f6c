/* Checkpoints while training goes on.
 *
 *   between two iterations   every writing rank copies its weights and moments (snapshot.h)
 *   beside the iterations    a thread of each writes the files of its stages into step-N.part
 *   when all have written    the thread of the rank that leads adds config, index and state, syncs, renames,
 * removes the oldest
 *
 * The threads know nothing of MPI: how far each is goes to all ranks with a small gather between iterations,
 * only while a checkpoint is under way, so that all take the same steps. One at a time: when the next is due
 * before, it begins when this one is done. What cannot be written (a full disk, no permission) is removed, an
 * event and a warning, and training goes on. */
#pragma once

#include "run/binding/binding.h"
#include "run/journal/journal.h"

typedef struct sl_saving sl_saving;

/** `folder`: the run's. `groups` must stay until it is closed or
 * moved. `first`: the iteration that training begins with, of which there is a checkpoint or
 * none is needed. Without checkpoint.every it does nothing. Close with sl_saving_close, also on error.
 * SL_ENOMEM, SL_ESYS. */
sl_status sl_saving_open(const sl_run *run, const char *folder, int first, sl_binding *binding,
                         const sl_groups *groups, sl_saving **saving);
/** Ends the thread; what it was writing stays incomplete. */
void sl_saving_close(sl_saving *saving);

/** Collective, between two iterations: `done` iterations are done. Begins a checkpoint when one is due, and
 * goes on with the one under way. Events go to `journal` (of the rank that leads; else NULL), whose run began
 * at `started`. Fails only when ranks or the journal do. */
sl_status sl_saving_step(sl_saving *saving, int done, sl_journal *journal, sl_time started);

/** Collective: returns when no checkpoint is under way. */
sl_status sl_saving_rest(sl_saving *saving, sl_journal *journal, sl_time started);
/** Goes on, at rest, with other seats: of this rank another binding, in groups that the same process leads.
 * SL_ENOMEM. */
sl_status sl_saving_move(sl_saving *saving, sl_binding *binding, const sl_groups *groups);

/** Collective: as sl_saving_step, and returns when there is a checkpoint of `done` or it has failed. */
sl_status sl_saving_finish(sl_saving *saving, int done, sl_journal *journal, sl_time started);

/** The iterations that are done in the newest whole checkpoint, or in what training began with; the same on
 * all ranks. -1: none are written at all. */
int sl_saving_whole(const sl_saving *saving);
/** What the last whole one took, from the copy to its name; 0: there was none yet. */
sl_time sl_saving_took(const sl_saving *saving);
