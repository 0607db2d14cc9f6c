/* The durable part of a run: the folder that the user named. It is locked while the run lives, so that no
 * second run writes the same files: by the supervisor and its reaper over all attempts (the kernel releases
 * the lock after both have ended, in whatever way), or by rank 0 without a supervisor. */
#pragma once

#include "base/event.h"
#include "base/status.h"

#include <limits.h>
#include <sys/stat.h>

typedef struct sl_launch_folder {
    char path[PATH_MAX]; /* absolute */
    int lock;            /* open file that holds the lock; -1: none. Closed on exec */
    int made;            /* it did not exist before */
} sl_launch_folder;

/** Creates the folder if absent and locks it. The reaper of a supervisor that was just killed holds the lock
 * until it has cleaned up, so this waits up to 3 s; then SL_ENONE "another run is using this directory".
 * File systems without such locks are not protected. Close with sl_launch_folder_close, also on error. */
sl_status sl_launch_folder_open(const char *directory, sl_launch_folder *folder);
void sl_launch_folder_close(sl_launch_folder *folder);

/** Whether a run of this machine is alive in `path`: its lock is held. -1: unknown. */
int sl_launch_folder_is_held(const char *path);

/** Whether a run or a watch in `path` has ended: its summary.json or report.json exists. */
int sl_launch_folder_is_finished(const char *path);

/** Of PATH, PATH-2, PATH-3 ...: makes `path` the first that does not exist, or, with `there`, the one before
 * it. SL_EINVAL: a path of `size` is too short. */
sl_status sl_launch_folder_number(char *path, size_t size, int there);

/* The progress of a run according to its metrics.jsonl. */
typedef struct sl_launch_reached {
    int iteration;    /* the last one written; -1: none */
    struct stat file; /* of metrics.jsonl, to detect writes; st_ino 0: absent */
} sl_launch_reached;

/** Reads the last complete line. Never fails: unreadable data count as absent. */
sl_launch_reached sl_launch_folder_reached(const sl_launch_folder *folder);

/** Adds an event to events.jsonl, after its last complete line. Only while no rank writes there. */
sl_status sl_launch_folder_event(const sl_launch_folder *folder, const sl_event *event);
