/* Finding and signalling processes of a run through /proc. Each signal goes through a pidfd that is opened
 * before the check, so a process id that was reused in between is never hit. */
#pragma once

#include <sys/types.h>

#define SL_LAUNCH_VARIABLE "SLACKLINE_RUN" /* in the environment of every process of a run: its directory */

/** Sends `signal` (0: only counts) to all living descendants of `ancestor` except `except` (0: none) and
 * returns their number; zombies do not count. Never fails; -1 if /proc cannot be read. */
int sl_process_signal_descendants(pid_t ancestor, pid_t except, int signal);

/** The same for all processes that have `line` ("NAME=VALUE") in their environment, except this one. */
int sl_process_signal_marked(const char *line, int signal);

/** The same for all processes that have `directory` in SL_LAUNCH_VARIABLE, except this one. */
int sl_process_signal_run(const char *directory, int signal);

/** Sends SIGKILL to all processes of the run `directory` until none is left, at most for 5 s. */
void sl_process_end_run(const char *directory);
