/* The temporary part of a run: a directory that holds everything that must not outlive it (shared memory,
 * sockets, Open MPI's session, workers' error files), on a memory file system if there is one.
 *
 * It is alive while a process holds the lock on its file `owner`: the supervisor and the reaper share one
 * lock (flock, inherited over fork), so the kernel releases it after both have ended, in whatever way. A
 * start tries the lock of every directory of this user that it finds. If it gets the lock, the run is dead:
 * it ends the processes that still name the directory in SLACKLINE_RUN and removes it. The lock works across
 * process namespaces, unlike process ids. */
#pragma once

#include "base/status.h"
#include "launch/process.h"

typedef struct sl_launch_directory {
    char path[256];
    int lock; /* open file that holds the lock; -1: none. Closed on exec */
} sl_launch_directory;

/** Creates the temporary part of a run whose durable part is `durable`: below /dev/shm, else
 * `durable`/tmp. */
sl_status sl_launch_directory_make(const char *durable, sl_launch_directory *directory);

/** Creates or joins the one of job `name` with a shared lock (ranks without a supervisor). Ranks that join at
 * the same time share it: SL_ESYS after 5 s without agreement.
 *
 * Its name ends in random characters, so that no other user can take it in advance; joining ranks find it by
 * its prefix and its owner. A rank that finds none creates a candidate and looks again. If it is alone, it
 * settles there; if there is another candidate, the one with the later name is withdrawn, and its rank waits
 * for the other. If two had settled, the later one would have seen the other. */
sl_status sl_launch_directory_join(const char *name, sl_launch_directory *directory);

/** A rank's part on its host, below `path`, the temporary part of its run. If the supervisor holds the lock,
 * it does nothing (lock is -1); on another host the ranks share one, and the last to leave removes the
 * directory. */
sl_status sl_launch_directory_enter(const char *path, sl_launch_directory *directory);

/** Removes the directory with its content and releases the lock. Never fails (undeletable files stay). */
void sl_launch_directory_remove(sl_launch_directory *directory);

/** Releases a shared lock; the last one removes the directory. */
void sl_launch_directory_leave(sl_launch_directory *directory);

/** Removes the remains of dead runs of this user: below /dev/shm, and `durable`/tmp (NULL: none). */
void sl_launch_directory_clear(const char *durable);
