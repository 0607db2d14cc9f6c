/* Checkpoints during training.
 *
 *   between two iterations       every writing rank copies its weights and moments (snapshot.h)
 *   during the iterations        a thread of each writes the files of its stages into step-N.part
 *   after all have written       the leader's thread adds config, index and state, syncs, renames, and
 *                                removes the oldest
 *
 * The threads do not use MPI: a small gather between iterations shares the progress of each with all ranks,
 * only while a checkpoint is under way, so that all take the same steps. One at a time: if the next is due
 * earlier, it begins after this one. A checkpoint that cannot be written (a full disk, no permission) is
 * removed, with an event and a warning, and training continues. */
#pragma once

#include "run/binding/binding.h"
#include "run/journal/run_log.h"

typedef struct sl_saving sl_saving;

/** `folder`: the run's. `groups` must stay until it is closed or moved. `first`: the first iteration of
 * training, which has a checkpoint or needs none. Does nothing without checkpoint.every. Close with
 * sl_saving_close, also on error. SL_ENOMEM, SL_ESYS. */
sl_status sl_saving_open(const sl_run *run, const char *folder, int first, sl_binding *binding,
                         const sl_groups *groups, sl_saving **saving);
/** Ends the thread; a checkpoint under way stays incomplete. */
void sl_saving_close(sl_saving *saving);

/** Collective, between two iterations: `done` iterations are complete. Begins a checkpoint when one is due,
 * and continues the one under way. Events go to the leader's `log`. Fails only if ranks or
 * the log do. */
sl_status sl_saving_step(sl_saving *saving, int done, sl_run_log *log);

/** Collective: returns when no checkpoint is under way. */
sl_status sl_saving_rest(sl_saving *saving, sl_run_log *log);
/** Continues, at rest, with other positions: on this rank another binding, in groups with the same leader
 * process. SL_ENOMEM. */
sl_status sl_saving_move(sl_saving *saving, sl_binding *binding, const sl_groups *groups);

/** Collective: like sl_saving_step, and returns when there is a checkpoint of `done` or it has failed. */
sl_status sl_saving_finish(sl_saving *saving, int done, sl_run_log *log);

/** The iterations completed in the newest complete checkpoint, or at the start of training; the same on all
 * ranks. -1: none are written at all. */
int sl_saving_whole(const sl_saving *saving);
/** Duration of the last complete one, from the copy to the renaming; 0: none yet. */
sl_time sl_saving_took(const sl_saving *saving);
