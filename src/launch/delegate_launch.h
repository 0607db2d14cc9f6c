/* Starting and ending delegates: small programs of a trainer, one for each stream of messages. They are
 * children of the trainer, started by posix_spawn (safe in an MPI process: none of its code runs in the
 * child), with only the given files, and without the environment that would make Open MPI or Slurm take them
 * for ranks. They name the run in SLACKLINE_RUN, so the reaper finds them too. */
#pragma once

#include "base/time.h"
#include "run/transport/starter.h"

typedef struct sl_launch_delegates {
    char *program;    /* path of slackline-delegate */
    char *directory;  /* of the run, for SLACKLINE_RUN; NULL: as in the environment */
    sl_time grace;    /* between SIGHUP and SIGKILL; 0: 1 s */
    sl_time patience; /* after SIGKILL; 0: the default (base/subprocess.h) */
    int silent;       /* nothing on standard error, neither by this process nor by them */
} sl_launch_delegates;

/** Starts `program` with the argument `name` and its starter's version (base/build.h); `files[count]` become
 * its files 3, 4, ...; 0 and 1 are /dev/null, 2 is this process's (silent: /dev/null). SL_ESYS names the
 * program. */
sl_status sl_launch_delegate_start(const sl_launch_delegates *delegates, const char *name, const int *files,
                                   int count, sl_subprocess *started);

/** Ends and reaps `count` of them: SIGHUP to all (they leave SIGTERM and SIGUSR1 to their rank), SIGKILL to
 * those still running after the grace. Empty entries are skipped. Never fails: standard error has one line
 * about those still running after the patience, unless `silent`. */
void sl_launch_delegate_stop(const sl_launch_delegates *delegates, sl_subprocess *started, int count);

/** Both as the table for a transport; `delegates` must outlive it. */
sl_transport_starter sl_launch_delegate_starter(sl_launch_delegates *delegates);
