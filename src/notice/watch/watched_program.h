/* The watched program: its checks before the start, and its start. */
#pragma once

#include "base/status.h"
#include <stddef.h>
#include <sys/types.h>

/** The index in `command` of the program: 0, or after a launcher (mpirun, mpiexec, srun, ...) the first word
 * that is a program in PATH or a path of one. Never fails. */
int sl_program_word(char *const *command);

/** The obstacle to preloading the probe into `command`, in words ("lmp is linked statically") in text[size];
 * empty if there is none. Checks the file that would be run, for a script its interpreter, and after a
 * launcher its program. Never fails. */
void sl_program_examine(char *const *command, char *text, size_t size);

/** Path of libslackline_probe.so, in the folder of this command or in its ../lib. Free with sl_free.
 * SL_ENONE; SL_ESYS: others could replace it (base/find.h). */
sl_status sl_program_probe(char **path);

/** The path for LD_PRELOAD: `probe`, or, if its path has blanks or colons, at which the loader would split
 * it, a link to it in `folder`. Free *path with sl_free. SL_ENONE: the folder has some, too; SL_ESYS. */
sl_status sl_program_preload(const char *probe, const char *folder, char **path);

/** What NCCL is to load as its profiler: libnccl-profiler-slackline.so, found like the probe. *path is NULL
 * if it is not there, or if NCCL_PROFILER_PLUGIN names another: that remains. text[size]: what the user
 * should know of it; empty: nothing. Free *path with sl_free. SL_ESYS: others could replace it; SL_ENOMEM. */
sl_status sl_program_plugin(char **path, char *text, size_t size);

/** Starts `command` as a child with everything that this process inherited, including its ignored and blocked
 * signals (base/signals.h), and in addition `probe` in LD_PRELOAD, `folder` in SLACKLINE_PROBE, and `plugin`,
 * if not NULL, in NCCL_PROFILER_PLUGIN. SL_ESYS if it cannot be run: *exit_code is then 126 or 127, as in a
 * shell. */
sl_status sl_program_start(char *const *command, const char *probe, const char *plugin, const char *folder,
                           pid_t *pid, int *exit_code);

/** The exit code of a wait status: the program's, or 128 + signal. */
int sl_program_exit_code(int wait_status);
