/* Where a run takes place: its folders, and what whoever started the ranks does for them. */
#pragma once

#include "run/transport/starter.h"

typedef struct sl_run_site {
    const char *folder;                  /* the run's durable folder, written by rank 0 */
    const char *run_file;                /* text that the folder keeps as run.yaml; NULL: none */
    int resume;                          /* go on from the newest checkpoint in the folder */
    const char *temporary;               /* on a memory file system, equal for the ranks of a host */
    const sl_transport_starter *starter; /* starts delegates; NULL: there can be none */
    int (*warned)(void); /* nonzero once after each warning that the run should end; NULL: never */
    int again;           /* whoever started the ranks starts them again when they have ended to leave a host
                            (departure.h) */
    int *left;           /* becomes 1 + the iterations done when a warning ended the run early */
} sl_run_site;
