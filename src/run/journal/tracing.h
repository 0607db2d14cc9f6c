/* timeline.json during a run: the file is complete after each recorded iteration, so a run that is running,
 * was killed or was stopped can be examined op by op. Additions replace the file's last line. */
#pragma once

#include "base/writer.h"
#include "plan/timing/timeline.h"

typedef struct sl_tracing {
    sl_writer *writer;
    char path[4096];
} sl_tracing;

/** Begins FOLDER/timeline.json for `ranks` pipeline ranks of each of `replicas`; an earlier file is replaced.
 * The writer reports write errors. SL_ENOMEM. */
sl_status sl_tracing_open(sl_tracing *t, sl_writer *writer, const char *folder, int ranks, int replicas);
/** Adds an iteration: a timeline for each replica, shifted by `begin` ns. */
sl_status sl_tracing_add(sl_tracing *t, const sl_timeline *timeline, int replicas, sl_time begin,
                         int iteration);
