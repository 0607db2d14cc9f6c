/* The folder of checkpoints: DIR/checkpoints/step-000020, after 20 iterations. It is written under the name
 * step-000020.part and renamed when every byte of it is on disk, so that it is complete or absent whichever
 * process dies; it is removed in the reverse order. Existing ones are checked byte by byte before they are
 * used. */
#pragma once

#include "run/checkpoint/checkpoint_state.h"
#include <stddef.h>

#define SL_CHECKPOINT_NAME 40

/** The name of the checkpoint after `iteration` iterations. */
void sl_checkpoint_name(int iteration, char name[SL_CHECKPOINT_NAME]);

/** Creates FOLDER/step-N.part and its parent folders if absent. path[4096]. SL_ESYS. */
sl_status sl_checkpoint_begin(const char *folder, int iteration, char *path);

/** After all files of step-N.part are written and synced: syncs the folder itself, renames it to step-N and
 * syncs that. Replaces an existing one of that name (a damaged one). SL_ESYS. */
sl_status sl_checkpoint_publish(const char *folder, int iteration);

/** Removes all but the `keep` newest. SL_ESYS. */
sl_status sl_checkpoint_prune(const char *folder, int keep);

/** Removes unfinished checkpoints. SL_ESYS. */
sl_status sl_checkpoint_clear(const char *folder);

/** Moves a folder of checkpoints of an earlier run aside, to FOLDER.before-1 (2, 3, ...), if it has any;
 * moved[4096] is the new path, or empty. SL_ESYS. */
sl_status sl_checkpoint_set_aside(const char *folder, char *moved);

/** Reads every file of a checkpoint: SL_EINVAL, without the path, names the one that is missing, shorter or
 * changed. Free the state with sl_checkpoint_state_free. */
sl_status sl_checkpoint_verify(const char *path, sl_checkpoint_state *state);

typedef struct sl_checkpoint_refusal {
    char name[SL_CHECKPOINT_NAME], why[200];
} sl_checkpoint_refusal;

typedef struct sl_checkpoint_found {
    int found;
    char name[SL_CHECKPOINT_NAME], path[4096];
    sl_checkpoint_state state;
    sl_checkpoint_refusal *refused; /* newer ones, newest first, and unfinished ones */
    int refusals, damaged;          /* damaged: refused ones that were complete */
    size_t capacity;
} sl_checkpoint_found;

/** The newest complete checkpoint of the folder. None, or no folder: SL_OK and found is 0. SL_ENONE: there
 * are some and all are damaged; `refused` has the reasons. Free with sl_checkpoint_found_free, also on
 * error. */
sl_status sl_checkpoint_find(const char *folder, sl_checkpoint_found *found);
void sl_checkpoint_found_free(sl_checkpoint_found *found);
