/* The temporary part of a run: a directory that holds everything which must not outlive it (shared memory,
 * sockets, Open MPI's session, workers' error files), on a memory file system where there is one.
 *
 * It is alive while somebody holds the lock on its file `owner`: the supervisor and the reaper hold one lock
 * together (flock, inherited over fork), so the kernel releases it when both are gone, however they ended. A
 * start takes the lock of every directory of this user that it finds; where that succeeds nobody is left, and
 * it ends the processes that still name the directory in SLACKLINE_RUN and removes it. The lock works across
 * process namespaces, where process ids do not. */
#pragma once

#include "base/status.h"

#define SL_LAUNCH_VARIABLE "SLACKLINE_RUN"

typedef struct sl_launch_directory {
    char path[256];
    int lock; /* open file that holds the lock; -1: none. Closed on exec */
} sl_launch_directory;

/** Makes the temporary part of a run whose durable part is `durable`: below /dev/shm, else `durable`/tmp. */
sl_status sl_launch_directory_make(const char *durable, sl_launch_directory *directory);

/** Makes or joins the one of job `name` with a shared lock (ranks without a supervisor). All who join at one time
 * share it: SL_ESYS after 5 s without agreement.
 *
 * Its name ends in random characters, so that no other user can take it in advance; those who join find it by
 * its beginning and its owner. Who finds none makes a candidate and looks again: alone, it settles there; beside
 * another candidate, the one with the later name is withdrawn, and the other waits for that. Of two that
 * settled, the later made one would have seen the other. */
sl_status sl_launch_directory_join(const char *name, sl_launch_directory *directory);

/** A rank's part on its host, below `path`, the temporary part of its run. Where the supervisor holds the
 * lock, nothing is to do (lock is -1); on another host the ranks share one, and the last to leave removes the
 * directory. */
sl_status sl_launch_directory_enter(const char *path, sl_launch_directory *directory);

/** Removes the directory with its content and gives the lock back. Never fails (what cannot be removed
 * stays). */
void sl_launch_directory_remove(sl_launch_directory *directory);

/** Gives a shared lock back; the last one removes the directory. */
void sl_launch_directory_leave(sl_launch_directory *directory);

/** Clears what dead runs of this user left: below /dev/shm, and `durable`/tmp (NULL: none). */
void sl_launch_directory_clear(const char *durable);
