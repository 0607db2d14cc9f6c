/* mpirun (Open MPI 4.1): its command line, and what its banners on standard error say.
 *
 * A banner stands between two lines of dashes; some words come as "[host:pid] ...". Both go to a log file,
 * made when there is something to write, by a thread of its own (base/writer.h); every other line is a
 * worker's and passes through to this standard error, but for the words that a failed worker on another host
 * has for the supervisor (cause.h). */
#pragma once

#include "base/status.h"
#include "base/writer.h"
#include "launch/launch.h"
#include <limits.h>
#include <stddef.h>
#include <stdio.h>

/** The mpirun of PATH, which counts with its absolute entries only. SL_ENONE. */
sl_status sl_mpirun_find(char path[PATH_MAX]);

/** argv for `config` with everything temporary below `temporary`. One allocation that also holds the texts
 * made here; the others stay the caller's. Free with sl_free. */
sl_status sl_mpirun_command(const sl_launch_config *config, const char *temporary, char ***argv);

/** Nonzero when all ranks run on this host. */
int sl_mpirun_is_local(const sl_launch_config *config);

typedef struct sl_mpirun_report {
    int rank;            /* that mpirun saw fail first; -1: it named none */
    int signal;          /* that ended it; 0: none */
    int exit_code;       /* of it; 0: none */
    char node[256];      /* where it ran; empty: not named */
    char words[512];     /* of the first banner that is not about a rank, in one line */
    char unreached[300]; /* "HOST: why", of the first host that ssh could not reach; empty: none */

    const char *temporary; /* the workers' words from other hosts go there; NULL: they pass like any other */
    const char *log_path;
    sl_writer *log;
    int pass; /* file that gets the workers' lines */
    int in_banner, has_words;
    size_t used;
    char line[4096];
} sl_mpirun_report;

/** Starts a report that writes mpirun's own words to `log_path` (kept by the caller) and the rest to file
 * `pass`. */
void sl_mpirun_report_start(sl_mpirun_report *report, const char *log_path, int pass);
/** More of mpirun's standard error. Lines that are not complete wait for the rest. */
void sl_mpirun_report_add(sl_mpirun_report *report, const char *text, size_t size);
/** No more comes: a last line without end is taken, the log is closed. */
void sl_mpirun_report_end(sl_mpirun_report *report);
