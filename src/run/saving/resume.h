/* The start of training: from a checkpoint of this run (--resume), with third-party weights (model.weights),
 * or from scratch. Rank 0 searches, checks every byte and rejects checkpoints that are damaged or of another
 * run. Then each rank reads its own parts and checks them itself: its host may have another copy, and a byte
 * may have changed since. */
#pragma once

#include "run/binding/binding.h"
#include "run/checkpoint/checkpoint_folder.h"
#include "run/journal/run_log.h"

typedef struct sl_resume {
    int asked;                 /* --resume */
    int first;                 /* first iteration of training */
    char moved[4096];          /* rank 0: new path of the checkpoints of an earlier run; empty: none */
    sl_checkpoint_found found; /* rank 0 */
} sl_resume;

/** Collective, after the binding is open: finds the newest complete checkpoint below `folder` (the run's) and
 * fills the weights and moments of this rank's stages from it. If `asked` is 0, checkpoints of an earlier
 * run are moved aside. SL_EINVAL names the key in which the run differs from its checkpoint, or the error of
 * model.weights; SL_ENONE: there are checkpoints and all are damaged. Free with sl_resume_close, also on
 * error. */
sl_status sl_resume_open(const sl_run *run, const char *folder, int asked, sl_binding *binding,
                         sl_group *group, sl_resume *resume);
void sl_resume_close(sl_resume *resume);

/** Rank 0: reports the result as events, on standard output and, for damage, on standard error. */
sl_status sl_resume_report(const sl_resume *resume, sl_run_log *log);
