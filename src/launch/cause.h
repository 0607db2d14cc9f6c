/* The cause of a run's failure, in one line. The cause is not always what is seen first: after a rank dies,
 * its neighbors complain about a lost peer. A worker's own message takes precedence over mpirun's, a cause
 * (bad data, a signal) over its consequence (SL_EPEER), and earlier over later. */
#pragma once

#include "launch/mpirun.h"

/** Formats the cause as the error text and returns its status. `wait_status`: how mpirun (process `pid`)
 * ended. SL_OK without text if it ended well. `log`: the file of mpirun's messages. */
sl_status sl_launch_cause(const char *temporary, const char *log, const sl_mpirun_report *report, int pid,
                          int wait_status, int *exit_code);
