/* How a transport starts and ends the processes of its delegates: functions that the program brings along,
 * because processes are the business of src/launch, which stands below. */
#pragma once

#include "base/status.h"
#include "base/subprocess.h"

typedef struct sl_transport_starter {
    /* Starts one delegate as a child of the calling thread's process. It finds `files[count]` as its file
     * descriptors 3, 4, ...; `name` is its one argument, for whoever lists processes. */
    sl_status (*start)(void *object, const char *name, const int *files, int count, sl_subprocess *started);
    /* Ends `count` of them, in good order where they let it, and reaps them. Entries without one are skipped;
     * all are none afterwards. Never fails; one that does not end is told on standard error. */
    void (*stop)(void *object, sl_subprocess *started, int count);
    void *object;
} sl_transport_starter;
