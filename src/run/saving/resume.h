/* Where training begins: at a checkpoint of this run (--resume), with weights from elsewhere (model.weights),
 * or anew. Rank 0 looks, checks every byte and refuses what is damaged or of another run; then each rank
 * reads what it holds, and checks that itself: its host may have another copy, and a byte may have changed
 * since. */
#pragma once

#include "run/binding/binding.h"
#include "run/checkpoint/checkpoint_folder.h"
#include "run/journal/journal.h"

typedef struct sl_resume {
    int asked;        /* --resume */
    int first;        /* the iteration that training begins with */
    char moved[4096]; /* rank 0: where checkpoints of an earlier run were moved to; empty: there were none */
    sl_checkpoint_found found; /* rank 0 */
} sl_resume;

/** Collective, once the binding is open: finds the newest whole checkpoint below `folder` (the run's) and
 * fills the weights and moments of this rank's stages from it. With `asked` 0 checkpoints of an earlier run
 * are moved aside. SL_EINVAL names the key in which the run differs from its checkpoint, or what is wrong
 * with model.weights; SL_ENONE: there are checkpoints and all are damaged. Free with sl_resume_close, also on
 * error. */
sl_status sl_resume_open(const sl_run *run, const char *folder, int asked, sl_binding *binding,
                         sl_group *group, sl_resume *resume);
void sl_resume_close(sl_resume *resume);

/** Rank 0: says what was found as events, on standard output and, of damage, on standard error. */
sl_status sl_resume_report(const sl_resume *resume, sl_journal *journal);
