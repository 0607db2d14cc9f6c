/* Process limits that a run would hit while it starts: with too few open files, mpirun neither starts its
 * ranks nor ends, but waits forever. So they are checked first: the soft limit is raised as far as the hard
 * one allows, which child processes inherit; if that is not enough, the run is refused.
 *
 * Open files per process, measured with Open MPI 4.1.4 by lowering the limit until a run fails: mpirun takes
 * 27 + 4 for each rank of this host; a rank 21, with delegates 34 and 7 more for each link; redis-server
 * refuses less than 33. Threads of one user (not limited for root): the supervisor's reaper 1, mpirun 4, a
 * rank 5 and 1 per link. tests/launch/test_limits.py starts runs exactly at these limits. */
#pragma once

#include "base/status.h"

/** Raises the soft limit of open files to 1024, or to the need, if it is below the need. SL_ENONE: the hard
 * limit is below it; the text gives the limit, the need and how to raise it. It starts with `what`: "4
 * ranks". */
sl_status sl_limits_open_files(int ranks, const char *what);

/** The same for processes and threads, of which `ranks` start some in addition to the existing ones. */
sl_status sl_limits_processes(int ranks, const char *what);

/** The number of ranks that a command line requests from mpirun (or mpiexec, orterun); 0: another program, or
 * not given. */
int sl_limits_ranks_of(char *const *command);
