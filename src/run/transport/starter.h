/* How a transport starts and ends the processes of its delegates: functions supplied by the program, because
 * processes belong to src/launch, a lower layer. */
#pragma once

#include "base/status.h"
#include "base/subprocess.h"

typedef struct sl_transport_starter {
    /* Starts one delegate as a child of the calling thread's process. It finds `files[count]` as its file
     * descriptors 3, 4, ...; `name` is its one argument, shown in process lists. */
    sl_status (*start)(void *object, const char *name, const int *files, int count, sl_subprocess *started);
    /* Ends `count` of them, normally if they respond, and reaps them. Empty entries are skipped; all are
     * empty afterwards. Never fails; a delegate that does not end is reported on standard error. */
    void (*stop)(void *object, sl_subprocess *started, int count);
    void *object;
} sl_transport_starter;
