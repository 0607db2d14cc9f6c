/* One run of a hook's process: found, started with its input and its mark, its files closed. */
#pragma once

#include "base/status.h"
#include "base/subprocess.h"
#include <limits.h>

typedef struct sl_hook_run {
    sl_subprocess process; /* leader of its group */
    int output;            /* what it writes, does not block; -1: closed */
    char mark[96];         /* "SLACKLINE_HOOK=...": everything that it starts has it */
} sl_hook_run;

#define SL_HOOK_RUN_NONE                                                                                     \
    { .process = {.file = -1}, .output = -1 }

/** The file that `program` names: itself where it has a slash, else the first in an absolute entry of PATH
 * that can be run. SL_ENONE says why there is none. */
sl_status sl_hook_find(const char *program, char path[PATH_MAX]);

/** Starts it. `number` tells runs of this process apart. SL_ENONE, SL_ESYS: it does not run, and why. From a
 * thread that outlives it: it is killed with that. */
sl_status sl_hook_run_start(const char *program, const char *input, const char *const *variables, int count,
                            unsigned number, sl_hook_run *run);
/** Closes the files; the process has been waited for. */
void sl_hook_run_close(sl_hook_run *run);
