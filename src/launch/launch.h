/* The one way to start, end and restart a run's processes.
 *
 *   supervisor (the command) -> reaper -> mpirun -> workers
 *
 * The reaper is forked first and is a child subreaper: processes left behind by mpirun or a worker become its
 * children, so it finds every process of the run by walking down from itself. A socket ties it to the
 * supervisor: when that end closes (return or SIGKILL) it ends all processes and removes the run's temporary
 * part. If the reaper itself is killed, mpirun dies by PR_SET_PDEATHSIG, the workers by watching mpirun
 * (worker.h), and the supervisor cleans up; if both are killed the next start does (directory.h). README.md
 * has a table of these cases.
 *
 * A failed attempt (attempt.h) is followed by another, up to `restarts` times, unless it would fail in the
 * same way: a wrong request, a request without an answer, or a worker's own error that occurred twice without
 * a new iteration in between. If hosts were given they are tested first (hosts.h).
 *
 * Failure is reported once: sl_launch_run returns the cause as its error text; banners of mpirun go to
 * DIR/mpirun.log, the workers' stderr passes through. */
#pragma once

#include "launch/launch_config.h"

/** Starts the run, sleeps until it has ended, and leaves no process and no temporary file of it. Workers get
 * SLACKLINE_RUN (the temporary part) in their environment; their stdout goes to this stdout unchanged, stdin
 * is empty. SIGINT and SIGHUP end the workers by SIGTERM, then SIGKILL after `grace`: SL_ENONE
 * "interrupted". SIGTERM and SIGUSR1 do the same unless there is a `warning`: then the workers are warned,
 * end by themselves, and the result is SL_ENONE "ended by SIGTERM after iteration N; ..."; a second signal
 * interrupts. Each restart is a line on stderr and an event (kind restart) in DIR/events.jsonl. On failure
 * the error text is the one line with the cause: the failed worker's own message, or the rank and the signal
 * that killed it, or the fate of mpirun. *exit_code is 0, or the command's exit code (1 or 2). Call it from
 * a process without other threads. */
sl_status sl_launch_run(const sl_launch_config *config, int *exit_code);

/** Nonzero if mpirun or srun started this process as a rank: then the command execs the worker directly
 * instead of calling sl_launch_run. */
int sl_launch_inside(void);

/** The path of a program in the folder of the running one (`name` such as "slackline-worker"). Free with
 * sl_free. SL_ENONE if it is not there, SL_ESYS if other users could replace it (base/find.h). */
sl_status sl_launch_program(const char *name, char **path);
