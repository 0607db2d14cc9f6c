/* The durable part of a run: the folder that the user named. It is locked while the run lives, so that no
 * second run writes the same files: by the supervisor and its reaper over all attempts (the kernel gives the
 * lock back when both are gone, however they ended), or by rank 0 where there is no supervisor. */
#pragma once

#include "base/event.h"
#include "base/status.h"

#include <limits.h>
#include <sys/stat.h>

typedef struct sl_launch_folder {
    char path[PATH_MAX]; /* absolute */
    int lock;            /* open file that holds the lock; -1: none. Closed on exec */
    int made;            /* it was not there before */
} sl_launch_folder;

/** Makes the folder where it is absent and locks it. The reaper of a supervisor that was just killed holds
 * the lock until it has cleared up, so this waits up to 3 s; then SL_ENONE "another run is using this
 * directory". File systems without such locks go unguarded. Close with sl_launch_folder_close, also on error.
 */
sl_status sl_launch_folder_open(const char *directory, sl_launch_folder *folder);
void sl_launch_folder_close(sl_launch_folder *folder);

/** Whether a run of this machine lives in `path`: its lock is held. -1: that cannot be seen. */
int sl_launch_folder_is_held(const char *path);

/** Whether a run or a watch in `path` has come to its end: it has left its summary.json or report.json. */
int sl_launch_folder_is_finished(const char *path);

/** Of PATH, PATH-2, PATH-3 ...: makes `path` the first that does not exist, or, with `there`, the one before
 * it. SL_EINVAL: a path of `size` is too short. */
sl_status sl_launch_folder_number(char *path, size_t size, int there);

/* How far a run has come, as its metrics.jsonl says. */
typedef struct sl_launch_reached {
    int iteration;    /* the last that was written; -1: none */
    struct stat file; /* of metrics.jsonl, to see whether somebody wrote it; st_ino 0: absent */
} sl_launch_reached;

/** Reads the last whole line. Never fails: what cannot be read is not there. */
sl_launch_reached sl_launch_folder_reached(const sl_launch_folder *folder);

/** Adds an event to events.jsonl, behind its last whole line. Only while no rank writes there. */
sl_status sl_launch_folder_event(const sl_launch_folder *folder, const sl_event *event);
