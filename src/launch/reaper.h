/* The reaper: parent of mpirun, child subreaper of the whole run, the one that outlives everybody.
 *
 * It talks with the supervisor over a socket of whole messages. The supervisor may ask to terminate or to
 * kill; the reaper says how mpirun ended once no process of the run is left. When the supervisor's end
 * closes, in good time or because it was killed, it ends what is left, removes the temporary part and exits.
 */
#pragma once

#include "base/time.h"
#include "launch/directory.h"
#include <signal.h>
#include <stdint.h>

typedef enum sl_reaper_word {
    SL_REAPER_WARN, /* to the reaper: SIGUSR1 to the workers, which end by themselves, SIGKILL after `warning`
                     */
    SL_REAPER_TERMINATE, /* to the reaper: SIGTERM to the workers, SIGKILL to all after the grace */
    SL_REAPER_KILL,      /* to the reaper: SIGKILL to all, now */
    SL_REAPER_ENDED /* from it: mpirun (pid) ended with wait status `value`; nothing is waited for any more */
} sl_reaper_word;

typedef struct sl_reaper_message {
    int32_t word, pid;
    int32_t value; /* ENDED: of mpirun, or SL_SUBPROCESS_UNKNOWN when it is among those left behind */
    int32_t left;  /* ENDED: processes that SIGKILL did not end within the patience */
} sl_reaper_message;

typedef struct sl_reaper_order {
    const char *program; /* mpirun's path; argv[0] stays "mpirun": a path there would imply --prefix */
    char *const *argv;
    int socket; /* to the supervisor; its own end is closed here already */
    int error;  /* becomes mpirun's stderr */
    int local;  /* workers are descendants; else mpirun passes SIGTERM on */
    sl_time grace, warning;
    sl_time patience; /* a process in uninterruptible sleep must not keep the files of the run for ever */
    const sigset_t *signals; /* mask for mpirun */
    sl_launch_directory *directory;
} sl_reaper_order;

/** What the forked reaper does, until all is gone. SIGCHLD, SIGINT, SIGTERM and SIGHUP are blocked. */
_Noreturn void sl_reaper_main(const sl_reaper_order *order);
