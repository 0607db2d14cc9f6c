/* The training loop of one rank, and the whole path of a run: plan, iterate, measure, adapt, write down.
 * Collective: all ranks of the world call it with the same run. */
#ifndef SL_RUN_TRAIN_TRAINER_H
#define SL_RUN_TRAIN_TRAINER_H

#include "run/collective/group.h"
#include "run/file/run.h"
#include "run/transport/starter.h"

typedef struct sl_place {
    const char *folder;                  /* the run's durable folder, written by rank 0 */
    const char *run_file;                /* text that the folder keeps as run.yaml; NULL: none */
    int resume;                          /* go on from the newest checkpoint in the folder */
    const char *temporary;               /* on a memory file system, equal for the ranks of a host */
    const sl_transport_starter *starter; /* starts delegates; NULL: there can be none */
    int (*warned)(void); /* nonzero once after each warning that the run should end; NULL: never */
    int again;           /* whoever started the ranks starts them again when they have ended to leave a host
                            (departure.h) */
    int *left;           /* becomes 1 + the iterations done when a warning ended the run early */
} sl_place;

/** Trains; a warning that any rank has got ends the run on all ranks between the same two iterations, with a
 * checkpoint. Rank 0 prints progress and the table to standard output. The error text names the cause. */
sl_status sl_train(const sl_run *run, const sl_place *place, sl_group *world);

#endif
