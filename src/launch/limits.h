/* Limits of the process that a run would hit while it starts: mpirun with too few open files neither starts
 * its ranks nor ends, but waits for ever. So they are looked at first: the soft limit is raised as far as the
 * hard one allows, which what is started inherits, and where that is not enough the run is refused.
 *
 * Open files a process, measured with Open MPI 4.1.4 by lowering the limit until a run fails: mpirun takes
 * 27 + 4 for each rank of this host; a rank 21, with delegates 34 and 7 for each link more; redis-server
 * refuses less than 33. Threads of one user (which root is not limited in): the supervisor's reaper 1, mpirun
 * 4, a rank 5 and 1 for a link. tests/launch/test_limits.py starts runs at just these limits. */
#pragma once

#include "base/status.h"

/** Raises the soft limit of open files to 1024, or what is needed, where it is below the need. SL_ENONE: the
 * hard limit is below it; the text says the limit, the need and how to raise it. `what` begins it: "4 ranks".
 */
sl_status sl_limits_open_files(int ranks, const char *what);

/** The same of processes and threads, of which `ranks` start some more than there are. */
sl_status sl_limits_processes(int ranks, const char *what);

/** Ranks that a command line asks mpirun (or mpiexec, orterun) for; 0: it is another program, or does not
 * say. */
int sl_limits_ranks_of(char *const *command);
