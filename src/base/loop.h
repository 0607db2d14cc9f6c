/* An event loop: one thread that sleeps in epoll until a file is ready, a timer expires or a signal arrives,
 * and then makes the callback. Times are those of the real clock (base/clock.h): a loop waits for the outside
 * world, which has no virtual time.
 *
 * Callbacks run one after the other on the thread in sl_loop_run; they may watch, unwatch (themselves too),
 * set timers and stop the loop. A callback's failure ends sl_loop_run with its status. Not for use by several
 * threads. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <signal.h>
#include <stdint.h>

typedef struct sl_loop sl_loop;

/* Name of a timer, never used twice: 64 bits outlast any run. 0: none. */
typedef int64_t sl_loop_timer;

typedef sl_status (*sl_loop_file_call)(void *context, int file);
typedef sl_status (*sl_loop_time_call)(void *context);
typedef sl_status (*sl_loop_signal_call)(void *context, const siginfo_t *signal);

sl_status sl_loop_open(sl_loop **loop);
/** Closes the loop and its own files; watched files stay the caller's. NULL does nothing. */
void sl_loop_close(sl_loop *loop);

/** Calls `call` whenever `file` can be read or its other end closed, until unwatched. One watch per file. */
sl_status sl_loop_watch(sl_loop *loop, int file, sl_loop_file_call call, void *context);
/** From now on the watched `file` is also called when it can be written to (wanted), or no longer (0). The
 * callback is the same: it tries both. SL_EINVAL: it is not watched. */
sl_status sl_loop_watch_writable(sl_loop *loop, int file, int wanted);
/** No more calls for `file`, not even for events that were already seen. Unknown files are ignored. */
void sl_loop_unwatch(sl_loop *loop, int file);

/** Calls `call` once at `deadline` (if past: in the next turn). *timer names it for sl_loop_forget; may be
 * NULL. */
sl_status sl_loop_at(sl_loop *loop, sl_time deadline, sl_loop_time_call call, void *context,
                     sl_loop_timer *timer);
/** Cancels the timer. Timers that were already called are ignored. */
void sl_loop_forget(sl_loop *loop, sl_loop_timer timer);

/** Calls `call` for each signal of `set`, which the caller has blocked (sigprocmask). Only `si_signo`,
 * `si_pid` and `si_code` are filled. Once per loop. */
sl_status sl_loop_signals(sl_loop *loop, const sigset_t *set, sl_loop_signal_call call, void *context);

/** Sleeps and calls until sl_loop_stop, or until a callback fails (its status). */
sl_status sl_loop_run(sl_loop *loop);
/** sl_loop_run returns SL_OK after the current callback. */
void sl_loop_stop(sl_loop *loop);
