/* The cause of a run's failure, in one line. The cause is not always what is seen first: after a rank dies,
 * its neighbors complain about a lost peer. A worker's own message takes precedence over mpirun's, a cause
 * (bad data, a signal) over its consequence (SL_EPEER), and earlier over later. */
#pragma once

#include "launch/mpirun.h"

/** Writes the error text of rank `rank` (-1: unknown) to a file that sl_launch_cause finds, completely or not
 * at all. */
sl_status sl_launch_cause_leave(const char *temporary, int rank, sl_status status, const char *text);

/** The same from a host whose files the supervisor cannot see: as a line on standard error. */
void sl_launch_cause_send(int rank, sl_status status, const char *text);
/** Nonzero if `line` is such a line; then it is stored in `temporary`. */
int sl_launch_cause_take(const char *temporary, const char *line);

/** Notes that rank `rank` exits by itself with a nonzero code, in case mpirun does not name it. */
void sl_launch_cause_exit(const char *temporary, int rank, int exit_code);

/** Formats the cause as the error text and returns its status. `wait_status`: how mpirun (process `pid`)
 * ended. SL_OK without text if it ended well. `log`: the file of mpirun's messages. */
sl_status sl_launch_cause(const char *temporary, const char *log, const sl_mpirun_report *report, int pid,
                          int wait_status, int *exit_code);
