/* Signals of a command. Ignored and blocked signals survive exec, so a command inherits those of its parent:
 * with SIGCHLD ignored, it never learns that its children ended. So every slackline program first saves the
 * signals it found and sets the ones it needs: a program that it runs for the user gets the signals as if the
 * user had started it. */
#pragma once

#include "base/status.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

/** First call of main: blocks the signals `blocked` (NULL: none). Ignored are only SIGXFSZ, so that a write
 * beyond the file size limit fails like one on a full disk, and those by which shells and nohup keep a
 * program running or quiet, if they were ignored before: SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN,
 * SIGTTOU. */
void sl_signals_begin(const sigset_t *blocked);

/** Nonzero if this process was started with `signal` ignored. 0 without sl_signals_begin. */
int sl_signals_were_ignored(int signal);

/** In a child that becomes a user's program: restores dispositions and mask as sl_signals_begin found them.
 * Safe after fork in a process with threads. Does nothing without sl_signals_begin. */
void sl_signals_give_back(void);

/** Starts a thread with all signals blocked: they go to the program's other threads. pthread_create's error.
 */
int sl_thread_start(pthread_t *thread, void *(*work)(void *object), void *object);

#define SL_THREADS_MAX 64

/** Calls `work` on `threads` threads, at most SL_THREADS_MAX, of which this is one, and returns after all
 * have ended: with the first failure and its text. *failed is 0 before, and nonzero once a call has failed,
 * so that the others can end. Threads that cannot be started are left out. */
sl_status sl_threads_join_in(int threads, sl_status (*work)(void *object), void *object, atomic_int *failed);
