/* Why a run failed, in one line. The cause is not always what is seen first: when a rank dies, its neighbours
 * complain about a lost peer. A worker's own words come before mpirun's, a cause (bad data, a signal) before
 * its consequence (SL_EPEER), and what is earlier before what is later. */
#pragma once

#include "launch/mpirun.h"

/** Writes the error text of rank `rank` (-1: not known) as a file that sl_launch_cause finds, complete or not
 * at all. */
sl_status sl_launch_cause_leave(const char *temporary, int rank, sl_status status, const char *text);

/** The same from a host that the supervisor cannot look into: as a line on standard error. */
void sl_launch_cause_send(int rank, sl_status status, const char *text);
/** Nonzero when `line` is such a line; it is left in `temporary` then. */
int sl_launch_cause_take(const char *temporary, const char *line);

/** Notes that rank `rank` exits by itself with a code other than 0, for the times when mpirun does not name
 * it. */
void sl_launch_cause_exit(const char *temporary, int rank, int exit_code);

/** Formats the cause as the error text and returns its status. `wait_status`: how mpirun (process `pid`)
 * ended. SL_OK with no text when it ended well. `log`: where mpirun's words are. */
sl_status sl_launch_cause(const char *temporary, const char *log, const sl_mpirun_report *report, int pid,
                          int wait_status, int *exit_code);
