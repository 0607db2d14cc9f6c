#include "launch/launch.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/find.h"
#include "base/memory.h"
#include "base/terminal.h"
#include "base/text.h"
#include "launch/attempt.h"
#include "launch/limits.h"
#include "launch/living.h"
#include "launch/mpirun.h"
#include "launch/regain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Long enough that a dead rank's port or memory is free again, short compared with a restart. Doubled for
 * each attempt that reached no new iteration. */
static const sl_time first_pause = SL_SECOND / 2, longest_pause = 10 * SL_SECOND;

/* A worker's own error that occurred this often without a new iteration in between will recur. */
enum { FRUITLESS_MAX = 2 };

typedef struct launched_run {
    const sl_launch_config *config;
    sl_launch_folder folder;
    sl_launch_signals signals;
    char log[PATH_MAX + 16];
    sl_living living;
    sl_time started;
    sl_launch_reached before;          /* metrics.jsonl when the command began */
    int reached;                       /* iteration, by the last attempt; -1: none */
    int best;                          /* by any of them */
    int written;                       /* metrics.jsonl is of this run */
    int attempts, restarts, fruitless; /* restarts: those of the attempts that followed a failure */
    int departed;                      /* the last ranks have ended to leave a host, or to grow */
} launched_run;

/* ---- what an attempt has reached, and whether another makes sense ---- */

static void take_stock(launched_run *r) {
    sl_launch_reached now = sl_launch_folder_reached(&r->folder);
    r->written |= sl_file_differs(&now.file, &r->before.file);
    if (r->written || r->config->resumed)
        r->reached = now.iteration;
    r->fruitless = r->reached > r->best ? 0 : r->fruitless + 1;
    r->best = r->reached > r->best ? r->reached : r->best;
}

static int may_restart(const launched_run *r, sl_status status, const sl_attempt_result *attempt) {
    if (attempt->interrupted || attempt->warned || r->restarts >= r->config->restarts)
        return 0;
    if (attempt->exit_code == 2 || status == SL_EINVAL || status == SL_ENONE)
        return 0;
    return status == SL_EPEER ||
           r->fruitless < FRUITLESS_MAX; /* a killed rank says nothing about the next one */
}

static void announce_restart(const launched_run *r, const char *cause, sl_time pause) {
    sl_event event = sl_event_of(SL_EVENT_RESTART, sl_now() - r->started, r->reached + 1);
    sl_text_format(event.decided, sizeof event.decided, "restart %d of %d", r->restarts, r->config->restarts);
    sl_text_fit(event.why, sizeof event.why, cause);
    sl_terminal_clear_line(stderr); /* of a progress line */
    fprintf(stderr, "slackline: %s; restart %d of %d in %g s\n", cause, r->restarts, r->config->restarts,
            (double)pause / 1e9);
    sl_living_report(&r->living, &event);
}

/* Written after the ranks' events, so that later readers of the folder see how it ended. The error text
 * stays. */
static void announce_failure(const launched_run *r, sl_status status) {
    char cause[1024];
    snprintf(cause, sizeof cause, "%s", sl_error_text());
    sl_event event = sl_event_of(SL_EVENT_FAILED, sl_now() - r->started, r->reached + 1);
    sl_event_say(&event, NULL, NULL, cause);
    sl_living_report(&r->living, &event);
    (void)sl_error(status, "%s", cause);
}

static sl_time pause_of(const launched_run *r) {
    sl_time pause = first_pause;
    for (int i = 0; i < r->fruitless && pause < longest_pause; i++)
        pause *= 2;
    return pause < longest_pause ? pause : longest_pause;
}

/* ---- ends ---- */

static sl_status say_continued(const launched_run *r) {
    char after[64] = "before its first iteration";
    if (r->reached >= 0)
        snprintf(after, sizeof after, "after iteration %d", r->reached);
    return sl_error(SL_ENONE, "ended by SIGTERM %s; `%s` continues", after, r->config->continued);
}

/* The workers were warned but did not end as they should: their earlier output still exists. */
static sl_status say_not_saved(const char *cause) {
    char text[900];
    snprintf(text, sizeof text, "%s", cause);
    return sl_error(SL_ENONE, "ended by SIGTERM, without a checkpoint for it: %s", text);
}

static sl_status say_interrupted(const launched_run *r) {
    if (r->reached < 0)
        return sl_error(SL_ENONE, "interrupted");
    return sl_error(SL_ENONE, "interrupted after iteration %d; `slackline report %s` shows the run",
                    r->reached, r->config->directory);
}

static sl_status interrupted(const launched_run *r, int signal) {
    return sl_launch_is_warning(r->config, signal) ? say_continued(r) : say_interrupted(r);
}

static sl_status give_up(const launched_run *r, sl_status status, const sl_attempt_result *attempt) {
    char cause[900];
    if (attempt->interrupted)
        return say_interrupted(r);
    const int reduced = sl_living_is_reduced(&r->living);
    snprintf(cause, sizeof cause, "%s%s%s", reduced ? "with " : "", reduced ? r->living.layout.words : "",
             reduced ? ": " : "");
    sl_text_fit(cause + strlen(cause), sizeof cause - strlen(cause), sl_error_text());
    if (r->restarts == 0 && !attempt->warned)
        return status;
    if (attempt->warned)
        return say_not_saved(cause);
    if (r->restarts < r->config->restarts && status != SL_EPEER && r->fruitless >= FRUITLESS_MAX)
        return sl_error(status,
                        "%s (after %d restart%s; not tried again, because no new iteration was reached)",
                        cause, r->restarts, r->restarts == 1 ? "" : "s");
    return sl_error(status, "%s (after %d restart%s)", cause, r->restarts, r->restarts == 1 ? "" : "s");
}

/* ---- between two attempts ---- */

/* The signal that ended the pause; 0: none. */
static int rest(const launched_run *r, sl_time pause) {
    struct timespec time = {.tv_sec = pause / SL_SECOND, .tv_nsec = pause % SL_SECOND};
    int signal = sigtimedwait(&r->signals.heard, NULL, &time);
    return signal > 0 ? signal : 0;
}

/* ---- the run ---- */

static sl_status try_once(launched_run *r, sl_attempt_result *attempt) {
    sl_launch_config config = *r->config;
    sl_regain regain = {.living = &r->living, .signals = &r->signals, .reached = r->best};
    const sl_attempt_side side = sl_regain_side(&regain);
    config.ranks = r->living.layout.ranks;
    if (r->attempts > 0 && config.again && (config.resumed || r->written))
        config.worker = config.again;
    if (r->living.text)
        config.hosts = r->living.text;
    *attempt = (sl_attempt_result){.signals = &r->signals, .log = r->log};
    attempt->side = sl_living_is_reduced(&r->living) ? &side : NULL;
    sl_living_begin(&r->living);
    sl_status status = sl_launch_attempt(&config, &r->folder, attempt);
    attempt->side = NULL;
    char text[1024];
    snprintf(text, sizeof text, "%s", sl_error_text());
    take_stock(r);
    r->departed = sl_living_left(&r->living);
    if (!r->departed && attempt->left && !attempt->warned) { /* they took the order to grow for a warning */
        sl_living_regain(&r->living, r->reached + 1);
        r->departed = 1;
    }
    r->attempts++;
    return status == SL_OK ? status : sl_error(status, "%s", text);
}

/* The ranks have saved themselves and ended to leave a host, or to grow: the next attempt follows at once,
 * and nothing has failed. *signal: one that arrived meanwhile. */
static void follow(launched_run *r, int *signal) {
    r->fruitless = 0;
    *signal = rest(r, 0);
}

/* After a failure: decides whether there is another attempt, and on which hosts. */
static sl_status recover(launched_run *r, sl_status status, const sl_attempt_result *attempt, int *signal) {
    if (!may_restart(r, status, attempt))
        return give_up(r, status, attempt);
    char cause[900];
    snprintf(cause, sizeof cause, "%s", sl_error_text());
    sl_time pause = pause_of(r);
    r->restarts++;
    announce_restart(r, cause, pause);
    *signal = rest(r, pause);
    return *signal == 0 ? sl_living_test(&r->living, &r->signals, r->reached + 1, signal) : SL_OK;
}

static sl_status try_until_done(launched_run *r, int *exit_code) {
    for (;;) {
        sl_attempt_result attempt;
        int signal = 0;
        sl_status status = try_once(r, &attempt);
        *exit_code = attempt.exit_code;
        if (attempt.left && attempt.warned)
            return say_continued(r);
        if (status == SL_OK && !r->departed)
            return SL_OK;
        if (r->departed && !attempt.interrupted) {
            *exit_code = 1;
            if (attempt.warned)
                return say_continued(r);
            follow(r, &signal);
        } else {
            SL_TRY(recover(r, status, &attempt, &signal));
            *exit_code = 1;
        }
        if (signal != 0)
            return interrupted(r, signal);
    }
}

/* The number of ranks of this host among several is not known here: at least some. */
static sl_status look_at_limits(const sl_launch_config *config) {
    enum { SOME = 8 };
    char what[32];
    const int ranks = sl_mpirun_is_local(config) || config->ranks < SOME ? config->ranks : SOME;
    snprintf(what, sizeof what, "%d rank%s", ranks, ranks == 1 ? "" : "s");
    SL_TRY(sl_limits_open_files(ranks, what));
    return sl_limits_processes(ranks, what);
}

static sl_status open_run(launched_run *r) {
    const sl_launch_config *config = r->config;
    char mpirun[PATH_MAX];
    SL_TRY(sl_mpirun_find(mpirun));
    SL_TRY(look_at_limits(config));
    SL_TRY(sl_living_open(&r->living, config, &r->folder, r->started));
    SL_TRY(sl_launch_folder_open(config->directory, &r->folder));
    SL_TRY(sl_living_continue(&r->living));
    snprintf(r->log, sizeof r->log, "%s/mpirun.log", r->folder.path);
    r->before = sl_launch_folder_reached(&r->folder);
    r->reached = r->best = config->resumed ? r->before.iteration : -1;
    return SL_OK;
}

sl_status sl_launch_run(const sl_launch_config *config, int *exit_code) {
    launched_run *r;
    *exit_code = 1;
    SL_TRY(sl_alloc(&r, 1, sizeof *r));
    r->config = config;
    r->folder.lock = -1;
    r->started = sl_now();
    sl_status status = open_run(r);
    if (status == SL_OK) {
        sl_launch_signals_block(&r->signals);
        status = try_until_done(r, exit_code);
        if (status != SL_OK && *exit_code != 2 && (r->written || r->reached >= 0))
            announce_failure(r, status);
        sl_launch_signals_restore(&r->signals);
    } else {
        *exit_code = sl_exit_code(status);
    }
    if (*exit_code == 2 &&
        r->log[0]) { /* a wrong request writes nothing, even if only a worker could detect it */
        unlink(r->log);
        sl_living_forget(&r->living);
        if (r->folder.made)
            rmdir(r->folder.path); /* not when a worker wrote into it */
    }
    sl_launch_folder_close(&r->folder);
    sl_living_close(&r->living);
    sl_free(r);
    return status;
}

int sl_launch_inside(void) {
    static const char *const rank[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", NULL};
    for (int i = 0; rank[i]; i++)
        if (getenv(rank[i]))
            return 1;
    /* A batch script has SLURM_PROCID too; more than one task in the step means that srun started this one.
     */
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    return getenv("SLURM_PROCID") && tasks && atoi(tasks) > 1;
}

sl_status sl_launch_program(const char *name, char **path) {
    static const char *const here[] = {"", NULL};
    char found[PATH_MAX], folder[PATH_MAX];
    sl_status status = sl_find_near(here, name, found);
    if (status == SL_ENONE && sl_find_folder("", folder) == SL_OK)
        return sl_error(
            SL_ENONE,
            "%s is not in %s: it is built from slackline's sources where Open MPI, oneDNN, hwloc and "
            "xxHash are installed, and is not part of the Python package",
            name, folder);
    SL_TRY(status);
    return sl_copy_text(path, found);
}
