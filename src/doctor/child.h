/* Runs a program or a function in a child process with a time limit. The child leads a process group, which
 * is killed at the limit and after its end, so that nothing remains. Standard output and standard error are
 * returned as one text. */
#pragma once

#include "base/status.h"
#include "base/time.h"

#include <stddef.h>

typedef struct sl_child {
    char text[4096]; /* what it wrote, cut; ended by 0 */
    int exit_code;   /* -1: it did not exit by itself */
    int signal;      /* that ended it; 0: none */
    int late;        /* it was killed at the limit */
} sl_child;

/** Runs a program (argv[0]: a path, or a name in PATH; 127 when it cannot be started) with `variable`
 * ("NAME=VALUE"; NULL: none) added to this environment, and without what would make it a rank of this
 * process's MPI job. SL_ESYS. */
sl_status sl_child_run(const char *const *argv, const char *variable, sl_time limit, sl_child *child);

/** Calls `work` in a child; what it returns is the exit code. */
sl_status sl_child_call(int (*work)(void *argument), void *argument, sl_time limit, sl_child *child);

/** Why it failed, in one line: "ended by signal 11 (Segmentation fault): last line that it wrote". */
void sl_child_reason(const sl_child *child, char *text, size_t size);

/** The first line behind `title` ("isa: avx512" behind "isa: "), in text[size]. Nonzero when there is one. */
int sl_child_line(const sl_child *child, const char *title, char *text, size_t size);
