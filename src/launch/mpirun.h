/* mpirun (Open MPI 4.1): its command line, and the contents of its banners on standard error.
 *
 * A banner is enclosed by two lines of dashes; some messages come as "[host:pid] ...". Both go to a log file,
 * created on demand and written by a separate thread (base/writer.h). Every other line is a worker's and
 * passes through to this standard error, except messages of a failed worker on another host for the
 * supervisor (worker_error.h). */
#pragma once

#include "base/status.h"
#include "base/writer.h"
#include "launch/launch_config.h"
#include <limits.h>
#include <stddef.h>
#include <stdio.h>

/** The mpirun of PATH, using only its absolute entries. SL_ENONE. */
sl_status sl_mpirun_find(char path[PATH_MAX]);

/** argv for `config` with everything temporary below `temporary`. One allocation that also holds the texts
 * created here; the others stay the caller's. Free with sl_free. */
sl_status sl_mpirun_command(const sl_launch_config *config, const char *temporary, char ***argv);

/** Nonzero if all ranks run on this host. */
int sl_mpirun_is_local(const sl_launch_config *config);

typedef struct sl_mpirun_report {
    int rank;            /* first failed rank according to mpirun; -1: it named none */
    int signal;          /* that ended it; 0: none */
    int exit_code;       /* of it; 0: none */
    char node[256];      /* its host; empty: not named */
    char words[512];     /* of the first banner that is not about a rank, on one line */
    char unreached[300]; /* "HOST: why", of the first host that ssh could not reach; empty: none */

    const char *temporary; /* for the messages of workers on other hosts; NULL: they pass like any other */
    const char *log_path;
    sl_writer *log;
    int pass; /* file that gets the workers' lines */
    int in_banner, has_words;
    size_t used;
    char line[4096];
} sl_mpirun_report;

/** Starts a report that writes mpirun's own messages to `log_path` (kept by the caller) and the rest to file
 * `pass`. */
void sl_mpirun_report_start(sl_mpirun_report *report, const char *log_path, int pass);
/** Adds more of mpirun's standard error. Incomplete lines wait for the rest. */
void sl_mpirun_report_add(sl_mpirun_report *report, const char *text, size_t size);
/** Ends the input: takes a last line without newline, closes the log. */
void sl_mpirun_report_end(sl_mpirun_report *report);
