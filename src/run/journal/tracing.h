/* timeline.json while a run goes on: after each recorded iteration the file is whole again, so that a run
 * that lives, was killed or was told to end can be looked at op by op. What is added takes the place of the
 * file's last line. */
#pragma once

#include "base/writer.h"
#include "plan/timing/timeline.h"

typedef struct sl_tracing {
    sl_writer *writer;
    char path[4096];
} sl_tracing;

/** Begins FOLDER/timeline.json for `ranks` pipeline ranks of each of `replicas`; an earlier file is replaced.
 * What cannot be written is the writer's to tell. SL_ENOMEM. */
sl_status sl_tracing_open(sl_tracing *t, sl_writer *writer, const char *folder, int ranks, int replicas);
/** Adds an iteration: a timeline for each replica, shifted by `begin` ns. */
sl_status sl_tracing_add(sl_tracing *t, const sl_timeline *timeline, int replicas, sl_time begin,
                         int iteration);
