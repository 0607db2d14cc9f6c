/* A hook: a user's program that is run for each event, one run at a time, in order.
 *
 * A run gets a text on its standard input (a file in memory, which it need not read), variables in its
 * environment, and its own process group. Its output goes to a log, up to SL_HOOK_LOGGED bytes of each run;
 * more is read slowly and discarded. At its time limit, SIGTERM, and a second later SIGKILL, go to it and all
 * processes that it started, including those that left its group. Children that outlive a run that ended by
 * itself are not touched. It is not run through a shell.
 *
 * The caller never waits for it: it watches sl_hook_file and calls sl_hook_step. The result of a run, or a
 * missing program, is reported by `ended` and is never an error. The run dies with the thread that called the
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
    sl_time limit;       /* time limit of a run */
    const char *log;     /* a file that is appended to; NULL: none */
    void (*ended)(void *context, const sl_hook_end *end); /* from sl_hook_step; may post */
    void *context;
} sl_hook_config;

typedef struct sl_hook sl_hook;

/** Copies the texts of `config`. SL_EINVAL (an empty program, a limit of 0), SL_ENOMEM, SL_ESYS. */
sl_status sl_hook_open(const sl_hook_config *config, sl_hook **hook);
/** Ends a running run, with its children, and discards waiting ones; `ended` is not called. Waits for
 * processes to die, 5 s at most. NULL is fine. */
void sl_hook_close(sl_hook *hook);

/** Adds a run: `title` for the log, `input` for its standard input, `variables[count]` ("NAME=VALUE"). All
 * copied. It starts in the next step at the earliest. SL_ENONE: too many wait. SL_ENOMEM. */
sl_status sl_hook_post(sl_hook *hook, int64_t tag, const char *title, const char *input,
                       const char *const *variables, int count);

/** Readable when a step has something to do. */
int sl_hook_file(const sl_hook *hook);
/** Performs the due actions: starts, reads, ends. Never waits. */
void sl_hook_step(sl_hook *hook);

/** Number of running and waiting runs. */
int sl_hook_pending(const sl_hook *hook);

/** Whether it could probably be started now: SL_ENONE with the reason if not. */
sl_status sl_hook_look(const char *program);
