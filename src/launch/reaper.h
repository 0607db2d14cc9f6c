/* The reaper: parent of mpirun and child subreaper of the whole run, which outlives all other processes.
 *
 * It exchanges whole messages with the supervisor over a socket. The supervisor may ask to terminate or to
 * kill; the reaper reports how mpirun ended after no process of the run is left. When the supervisor's end
 * closes, normally or because it was killed, it ends the remaining processes, removes the temporary part and
 * exits. */
#pragma once

#include "base/time.h"
#include "launch/directory.h"
#include <signal.h>
#include <stdint.h>

typedef enum sl_reaper_word {
    SL_REAPER_WARN, /* to the reaper: SIGUSR1 to the workers, which end by themselves, SIGKILL after `warning`
                     */
    SL_REAPER_GROW, /* to the reaper: SIGUSR1 to the workers, without a limit */
    SL_REAPER_TERMINATE, /* to the reaper: SIGTERM to the workers, SIGKILL to all after the grace */
    SL_REAPER_KILL,      /* to the reaper: SIGKILL to all, now */
    SL_REAPER_ENDED /* from it: mpirun (pid) ended with wait status `value`; nothing is left to wait for */
} sl_reaper_word;

typedef struct sl_reaper_message {
    int32_t word, pid;
    int32_t value; /* ENDED: of mpirun, or SL_SUBPROCESS_UNKNOWN if it is among those left behind */
    int32_t left;  /* ENDED: processes that SIGKILL did not end within the patience */
} sl_reaper_message;

typedef struct sl_reaper_order {
    const char *program; /* mpirun's path; argv[0] stays "mpirun": a path there would imply --prefix */
    char *const *argv;
    int socket; /* to the supervisor; its own end is closed here already */
    int error;  /* becomes mpirun's stderr */
    int local;  /* workers are descendants; else mpirun passes SIGTERM on */
    sl_time grace, warning;
    sl_time patience; /* bounds the time that a process in uninterruptible sleep keeps the run's files */
    const sigset_t *signals; /* mask for mpirun */
    sl_launch_directory *directory;
} sl_reaper_order;

/** The main function of the forked reaper, until all is gone. SIGCHLD, SIGINT, SIGTERM and SIGHUP are
 * blocked. */
_Noreturn void sl_reaper_main(const sl_reaper_order *order);
