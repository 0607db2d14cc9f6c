/* How a transport starts and ends the processes of its delegates: functions that the program brings along,
 * because processes are the business of src/launch, which stands below. */
#ifndef SL_RUN_TRANSPORT_STARTER_H
#define SL_RUN_TRANSPORT_STARTER_H

#include "base/status.h"
#include <sys/types.h>

typedef struct sl_started {
    pid_t pid; /* 0: not started */
    int file;  /* pidfd; -1: none */
} sl_started;

typedef struct sl_transport_starter {
    /* Starts one delegate as a child of the calling thread's process. It finds `files[count]` as its file
     * descriptors 3, 4, ...; `name` is its one argument, for whoever lists processes. */
    sl_status (*start)(void *object, const char *name, const int *files, int count, sl_started *started);
    /* Ends `count` of them, in good order where they let it, reaps them and closes their pidfds. Entries
     * with pid 0 are skipped; all are cleared. Never fails. */
    void (*stop)(void *object, sl_started *started, int count);
    void *object;
} sl_transport_starter;

#endif
