/* Runs a program or a function in a child process with a time limit. The child leads a process group, which
 * is killed at the limit and after its end, so that nothing remains. Standard output and standard error are
 * returned as one text. */
#pragma once

#include "base/status.h"
#include "base/time.h"

#include <stddef.h>

typedef struct sl_child {
    char text[4096]; /* its output, cut; ends with 0 */
    int exit_code;   /* -1: it did not exit on its own */
    int signal;      /* that ended it; 0: none */
    int late;        /* killed at the limit */
} sl_child;

/** Runs a program (argv[0]: a path, or a name in PATH; 127 if it cannot be started) with `variable`
 * ("NAME=VALUE"; NULL: none) added to this environment, and without the variables that would make it a rank
 * of this process's MPI job. SL_ESYS. */
sl_status sl_child_run(const char *const *argv, const char *variable, sl_time limit, sl_child *child);

/** Calls `work` in a child; its return value is the exit code. */
sl_status sl_child_call(int (*work)(void *argument), void *argument, sl_time limit, sl_child *child);

/** The reason of its failure, in one line: "ended by signal 11 (Segmentation fault): last line written". */
void sl_child_reason(const sl_child *child, char *text, size_t size);

/** The first line's text after `title` ("isa: avx512" after "isa: "), in text[size]. Nonzero if found. */
int sl_child_line(const sl_child *child, const char *title, char *text, size_t size);
