/* A child process: waiting for its end, and ending it.
 *
 * It is watched and signaled through a pidfd, so a reused process id is never hit. On a kernel without pidfds
 * the process id is used: it stays the child's until the child is reaped, and only the functions below reap
 * it. Ending has steps, each with a limit: a polite signal, SIGKILL, and then giving up. A process in an
 * uninterruptible sleep, or a dead one held by a debugger, never makes the caller wait forever. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <sys/types.h>

typedef struct sl_subprocess {
    pid_t pid; /* 0: none, and `file` is meaningless */
    int file;  /* pidfd, readable once it has ended; -1: the kernel has none */
} sl_subprocess;

#define SL_SUBPROCESS_NONE ((sl_subprocess){.file = -1})
#define SL_SUBPROCESS_UNKNOWN (-1)             /* wait status of a child that was reaped elsewhere */
#define SL_SUBPROCESS_PATIENCE (5 * SL_SECOND) /* after SIGKILL */

/** Wraps a child that was just started and not yet waited for. Never fails. */
sl_subprocess sl_subprocess_take(pid_t pid);

/** Waits until it has ended, at most until `deadline` (in the past: only checks). 1: it has, and is not
 * reaped yet; 0: not yet. */
int sl_subprocess_await(const sl_subprocess *child, sl_time deadline);

/** As sl_subprocess_await, and reaps: *status (may be NULL) is its wait status or SL_SUBPROCESS_UNKNOWN, and
 * *child is none. */
int sl_subprocess_wait(sl_subprocess *child, sl_time deadline, int *status);

/** Stops watching a child, which is then never reaped. */
void sl_subprocess_forget(sl_subprocess *child);

/** Sends `signal` unless it has been reaped. Never fails. */
void sl_subprocess_signal(const sl_subprocess *child, int signal);

typedef struct sl_subprocess_ending {
    const char *what; /* "the solver", for the error */
    int signal;       /* sent first; 0: SIGKILL at once */
    sl_time grace;    /* between that and SIGKILL */
    sl_time patience; /* after SIGKILL; 0: SL_SUBPROCESS_PATIENCE */
    int group;        /* SIGKILL also goes to the group that each leads, even if the leader has ended */
} sl_subprocess_ending;

/** Ends and reaps `count` children; entries without one are skipped. All are none afterwards. status[count]
 * (NULL: unwanted) as of sl_subprocess_wait. SL_ESYS: some are left behind; the text names them. */
sl_status sl_subprocess_end(sl_subprocess *child, int count, const sl_subprocess_ending *ending, int *status);
