/* A worker's side of the launch: the directory of its temporary files, the report of its failure, and its end
 * when mpirun ends.
 *
 * Under a supervisor the temporary part is the supervisor's. Started by a bare mpirun or srun, the ranks of a
 * host share one named after the job: each holds a shared lock on it, the last to end removes it, and the
 * remains of a killed job are removed at the next start (directory.h). */
#pragma once

#include "base/status.h"

typedef struct sl_launch_worker {
    char temporary[256]; /* directory on a memory file system if any, equal for all ranks of a host */
    int supervised;      /* started through sl_launch_run */
    int lock;            /* of the part, if there is no supervisor on this host; else -1 */
    int folder;          /* lock on the run's folder (sl_launch_worker_own); -1: none */
} sl_launch_worker;

/** Call first in main, before MPI starts and before other threads exist: fills `worker`, and if supervised
 * starts a sleeping thread that ends this process by SIGKILL when its parent (mpirun) has ended. SL_ESYS. */
sl_status sl_launch_worker_begin(sl_launch_worker *worker);

/* The exit code of a rank that ended early because it was warned. */
#define SL_LAUNCH_LEFT 3

/** From now on a scheduler's warning (SIGTERM, SIGUSR1) does not end this process; sl_launch_worker_warned
 * reports it. Call before other threads exist. Under a supervisor only SIGUSR1 is a warning: the supervisor
 * ends ranks by SIGTERM. */
void sl_launch_worker_expect_warning(const sl_launch_worker *worker);
/** Nonzero once after each warning. */
int sl_launch_worker_warned(void);

/** Locks the run's folder if no supervisor does; for rank 0. SL_ENONE: a living run uses it. */
sl_status sl_launch_worker_own(sl_launch_worker *worker, const char *folder);

/** The normal end: call after MPI has ended. Never fails. */
void sl_launch_worker_end(sl_launch_worker *worker);

/** The end on failure: passes sl_error_text() to the supervisor (unsupervised: prints it to stderr,
 * "slackline: rank 2: ...") and ends the process at once with sl_exit_code(status), without MPI_Finalize;
 * stdout is flushed. `rank`: -1 if unknown. An SL_EPEER is the consequence of another rank's end, so it
 * gives that 1 s to be detected first. */
_Noreturn void sl_launch_worker_fail(sl_launch_worker *worker, int rank, sl_status status);
