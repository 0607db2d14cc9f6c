/* A hook: a program of the user's that is run for each event, one run at a time, in order.
 *
 * A run gets a text on its standard input (a file in memory, so that it may read it or not), variables in its
 * environment, and a process group of its own. What it writes goes to a log, the first SL_HOOK_LOGGED bytes
 * of each run; more is read slowly and thrown away. It has a limit of time: then SIGTERM, and a second later
 * SIGKILL to it and all that it started, also what left its group. Children that outlive a run which ended by
 * itself are not touched. It is not run through a shell.
 *
 * Nobody waits for it: the caller watches sl_hook_file and calls sl_hook_step. What a run does, or that there
 * is no such program, is told by `ended` and never an error. The run dies with the thread that called the
 * step that started it. SIGCHLD may be blocked; only the hook's own process ids are waited for. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <stdint.h>

#define SL_HOOK_LOGGED 65536
#define SL_HOOK_WAITING 64  /* runs that may wait */
#define SL_HOOK_NOT_MINE 77 /* exit code */

typedef enum sl_hook_result {
    SL_HOOK_DONE,   /* exit 0 */
    SL_HOOK_PASSED, /* exit 77: not for this hook */
    SL_HOOK_FAILED, /* another exit code, a signal, the limit */
    SL_HOOK_ABSENT  /* it could not be started */
} sl_hook_result;

typedef struct sl_hook_end {
    int64_t tag;
    sl_hook_result result;
    sl_time took;
    char said[256]; /* "exit 3", "took longer than 60 s", "/x/hook: cannot be run: No such file or directory"
                     */
} sl_hook_end;

typedef struct sl_hook_config {
    const char *program; /* a path, or a name in an absolute entry of PATH; without arguments */
    sl_time limit;       /* of a run */
    const char *log;     /* a file that is appended to; NULL: none */
    void (*ended)(void *context, const sl_hook_end *end); /* from sl_hook_step; may post */
    void *context;
} sl_hook_config;

typedef struct sl_hook sl_hook;

/** Copies the texts of `config`. SL_EINVAL (an empty program, a limit of 0), SL_ENOMEM, SL_ESYS. */
sl_status sl_hook_open(const sl_hook_config *config, sl_hook **hook);
/** Ends a run that goes on, with its children, and forgets what waits; `ended` is not called. Waits for
 * processes to die, 5 s at most. NULL is fine. */
void sl_hook_close(sl_hook *hook);

/** One more run: `title` for the log, `input` for its standard input, `variables[count]` ("NAME=VALUE"). All
 * copied. It starts in the next step at the earliest. SL_ENONE: too many wait. SL_ENOMEM. */
sl_status sl_hook_post(sl_hook *hook, int64_t tag, const char *title, const char *input,
                       const char *const *variables, int count);

/** Readable when a step has something to do. */
int sl_hook_file(const sl_hook *hook);
/** Does what is due: starts, reads, ends. Never waits. */
void sl_hook_step(sl_hook *hook);

/** Runs that go on or wait. */
int sl_hook_pending(const sl_hook *hook);

/** Whether it could be started now, as far as can be seen: SL_ENONE says why not. */
sl_status sl_hook_look(const char *program);
