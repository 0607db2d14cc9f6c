/* One run of a hook's process: found, started with its input and its mark, its files closed. */
#pragma once

#include "base/status.h"
#include "base/subprocess.h"
#include <limits.h>

typedef struct sl_hook_run {
    sl_subprocess process; /* leader of its group */
    int output;            /* its output, nonblocking; -1: closed */
    char mark[96];         /* "SLACKLINE_HOOK=...": inherited by everything that it starts */
} sl_hook_run;

#define SL_HOOK_RUN_NONE                                                                                     \
    { .process = {.file = -1}, .output = -1 }

/** The file that `program` names: itself if it has a slash, else the first executable one in an absolute
 * entry of PATH. SL_ENONE with the reason if there is none. */
sl_status sl_hook_find(const char *program, char path[PATH_MAX]);

/** Starts it. `number` distinguishes runs of this process. SL_ENONE, SL_ESYS: it does not run, and why. Call
 * it from a thread that outlives it: it is killed with that thread. */
sl_status sl_hook_run_start(const char *program, const char *input, const char *const *variables, int count,
                            unsigned number, sl_hook_run *run);
/** Closes the files; the process has been waited for. */
void sl_hook_run_close(sl_hook_run *run);
