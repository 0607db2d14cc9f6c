/* The surroundings of a run: its folders, and the services of the process that started the ranks. */
#pragma once

#include "run/transport/starter.h"

typedef struct sl_run_site {
    const char *folder;                  /* the run's durable folder, written by rank 0 */
    const char *run_file;                /* text that the folder keeps as run.yaml; NULL: none */
    int resume;                          /* resume from the newest checkpoint in the folder */
    const char *temporary;               /* on a memory file system, equal for the ranks of a host */
    const sl_transport_starter *starter; /* starts delegates; NULL: none are possible */
    int (*warned)(void); /* nonzero once after each warning that the run should end; NULL: never */
    int again;           /* the supervisor restarts ranks that ended to leave a host (departure.h) */
    int *left;           /* becomes 1 + the iterations done when a warning ended the run early */
} sl_run_site;
