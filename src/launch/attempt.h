/* One attempt of a run: reaper, mpirun and workers from their start to the last one's end, and the cause of
 * their end. */
#pragma once

#include "base/loop.h"
#include "launch/launch_config.h"
#include "launch/run_folder.h"

#include <signal.h>

/* Blocked in the supervisor from before its first attempt until after its last, so that none is lost in
 * between. */
typedef struct sl_launch_signals {
    sigset_t heard;  /* SIGINT, SIGHUP, SIGTERM, SIGUSR1 */
    sigset_t before; /* the mask that children get */
} sl_launch_signals;

void sl_launch_signals_block(sl_launch_signals *signals);
void sl_launch_signals_restore(const sl_launch_signals *signals);

/** Whether `signal` is a scheduler's warning, if `config` lets the workers answer one. */
int sl_launch_is_warning(const sl_launch_config *config, int signal);

/* What the supervisor does besides while ranks live, in the loop of the attempt. */
typedef struct sl_attempt_side {
    /* Sets timers and watches files. `grow(attempt)` asks the ranks to save themselves and to end. */
    sl_status (*open)(void *context, sl_loop *loop, void (*grow)(void *attempt), void *attempt);
    void (*close)(void *context); /* the loop still exists */
    void *context;
} sl_attempt_side;

/* How an attempt ended, in addition to its status. */
typedef struct sl_attempt_result {
    const sl_launch_signals *signals;
    const char *log;             /* for mpirun's own messages, if any */
    sl_time limit;               /* time after which all is killed: SL_ENONE; 0: never */
    const sl_attempt_side *side; /* NULL: none */

    int exit_code;   /* 0, or the command's: 1 or 2 */
    int interrupted; /* by a signal that ends the run at once */
    int warned;      /* by a signal that lets it end by itself */
    int left;        /* the workers ended by themselves after the warning (SL_LAUNCH_LEFT) */
    int growing;     /* the side asked them to end */
} sl_attempt_result;

/** Runs `config`'s workers once (ignores its restarts) and leaves no process and no temporary file of them.
 * `folder` is open. On failure the error text is the one line with the cause. */
sl_status sl_launch_attempt(const sl_launch_config *config, const sl_launch_folder *folder,
                            sl_attempt_result *attempt);
