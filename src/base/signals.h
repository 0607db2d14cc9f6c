/* Signals of a command. Ignored and blocked signals survive exec, so a command inherits those of its parent:
 * with an ignored SIGCHLD it never learns of the end of its children. So every slackline program first sets
 * what it needs and saves what it found: a program that it runs for the user gets the signals as if the user
 * had started it. */
#pragma once

#include <pthread.h>
#include <signal.h>

/** First call of main: `blocked` are the signals that are blocked (NULL: none). None is ignored but SIGXFSZ,
 * so that a write beyond a limit of file size fails like one on a full disk, and those by which shells and
 * nohup keep a program running or quiet, if they were: SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU. */
void sl_signals_begin(const sigset_t *blocked);

/** Nonzero when this process was started with `signal` ignored. 0 without sl_signals_begin. */
int sl_signals_were_ignored(int signal);

/** In a child that becomes a program of the user's: dispositions and mask as sl_signals_begin found them.
 * Safe after fork in a process with threads. Does nothing without sl_signals_begin. */
void sl_signals_give_back(void);

/** Starts a thread with all signals blocked: they go to the program's other threads. pthread_create's error.
 */
int sl_thread_start(pthread_t *thread, void *(*work)(void *object), void *object);
