/* What a run is: its processes, and when they are started again (launch.h). */
#pragma once

#include "base/status.h"
#include "base/time.h"

/* The processes of an attempt of an elastic run. */
typedef struct sl_launch_layout {
    int ranks;
    char argument[24]; /* for the ranks */
    char words[96];    /* for people */
} sl_launch_layout;

typedef struct sl_launch_config {
    const char *directory; /* durable part of the run, created if absent; locked while the run lives */
    int ranks;
    char *const *worker; /* argv of every rank, NULL-terminated; worker[0] is a path or found in PATH */
    const char *hosts;   /* as for mpirun --host (hosts.h); NULL: this host, or the allocation's */
    sl_time grace;       /* from SIGTERM to SIGKILL when interrupted; 0: 5 s */
    sl_time patience;    /* for processes that SIGKILL does not end; 0: 10 s */

    int restarts;       /* attempts after the first */
    char *const *again; /* argv of every rank in those, after the first has written output; NULL: `worker` */
    int resumed;        /* `worker` resumes already: metrics.jsonl belongs to this run */
    sl_time warning;    /* workers answer a scheduler's warning (worker.h) within this time; 0: they do not */
    /* An elastic run: the layout on that many slots; SL_ENONE: none fits. NULL: always `ranks` ranks. */
    sl_status (*fit)(const void *context, int slots, sl_launch_layout *layout);
    const void *fit_context;
    char *argument;     /* a word of `worker` and `again` that the layout's argument is written to */
    sl_time test_every; /* interval of the tests of lost hosts while fewer than `ranks` ranks run */

    const char *continued; /* the command that continues this run, for messages; NULL with `warning` 0 */
} sl_launch_config;
