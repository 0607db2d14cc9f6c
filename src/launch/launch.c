#include "launch/launch.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/terminal.h"
#include "launch/attempt.h"
#include "launch/hosts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Long enough that a dead rank's port or memory is free again, short against what a restart itself takes.
 * Doubled for each attempt that reached no new iteration. */
static const sl_time first_pause = SL_SECOND / 2, longest_pause = 10 * SL_SECOND;
static const sl_time host_patience = 30 * SL_SECOND;

/* An error of a worker's own that came so often without a new iteration in between will come again. */
enum { FRUITLESS_MOST = 2 };

typedef struct run {
    const sl_launch_config *config;
    sl_launch_folder folder;
    sl_launch_signals signals;
    char log[PATH_MAX + 16];
    sl_launch_hosts hosts;
    char *living; /* the hosts that passed their test, as mpirun takes them; NULL: config->hosts */
    sl_time started;
    sl_launch_reached before; /* metrics.jsonl when the command began */
    int reached;              /* iteration, by the last attempt; -1: none */
    int best;                 /* by any of them */
    int written;              /* metrics.jsonl is of this run */
    int restarts, fruitless;
} run;

static sl_status find_mpirun(void) {
    const char *path = getenv("PATH");
    char candidate[PATH_MAX];
    for (const char *at = path ? path : "/usr/bin:/bin"; *at;) {
        size_t length = strcspn(at, ":");
        if (length > 0 && snprintf(candidate, sizeof candidate, "%.*s/mpirun", (int)length, at) > 0 &&
            access(candidate, X_OK) == 0)
            return SL_OK;
        at += length + (at[length] == ':');
    }
    return sl_error(SL_ENONE, "mpirun is not installed (Debian: openmpi-bin)");
}

/* ---- what an attempt has reached, and whether another makes sense ---- */

static void take_stock(run *r) {
    sl_launch_reached now = sl_launch_folder_reached(&r->folder);
    r->written |= sl_launch_reached_differ(&now, &r->before);
    if (r->written || r->config->resumed)
        r->reached = now.iteration;
    r->fruitless = r->reached > r->best ? 0 : r->fruitless + 1;
    r->best = r->reached > r->best ? r->reached : r->best;
}

static int may_restart(const run *r, sl_status status, const sl_attempt *attempt) {
    if (attempt->interrupted || attempt->warned || r->restarts >= r->config->restarts)
        return 0;
    if (attempt->exit_code == 2 || status == SL_EINVAL || status == SL_ENONE)
        return 0;
    return status == SL_EPEER ||
           r->fruitless < FRUITLESS_MOST; /* a killed rank says nothing about the next one */
}

/* Cut between two characters (UTF-8). */
static void copy_words(char *words, size_t size, const char *text) {
    size_t length = strlen(text) < size ? strlen(text) : size - 1;
    while (text[length] && length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
        length--;
    memcpy(words, text, length);
    words[length] = 0;
}

/* A full disk may be why the attempt failed: that the event cannot be written is no reason to give up. */
static void tell(const run *r, const sl_event *event) {
    if (sl_launch_folder_event(&r->folder, event) != SL_OK)
        fprintf(stderr, "slackline: %s\n", sl_error_text());
}

static void announce_restart(const run *r, const char *cause, sl_time pause) {
    sl_event event = {.kind = SL_EVENT_RESTART,
                      .time = sl_clock_now(sl_clock_real()) - r->started,
                      .iteration = r->reached + 1,
                      .from = -1,
                      .to = -1,
                      .rank = -1};
    snprintf(event.decided, sizeof event.decided, "restart %d of %d", r->restarts, r->config->restarts);
    copy_words(event.why, sizeof event.why, cause);
    sl_terminal_clear_line(stderr); /* of a progress line */
    fprintf(stderr, "slackline: %s; restart %d of %d in %g s\n", cause, r->restarts, r->config->restarts,
            (double)pause / 1e9);
    tell(r, &event);
}

static sl_time pause_of(const run *r) {
    sl_time pause = first_pause;
    for (int i = 0; i < r->fruitless && pause < longest_pause; i++)
        pause *= 2;
    return pause < longest_pause ? pause : longest_pause;
}

/* ---- ends ---- */

static sl_status say_continued(const run *r) {
    char after[64] = "before its first iteration";
    if (r->reached >= 0)
        snprintf(after, sizeof after, "after iteration %d", r->reached);
    return sl_error(SL_ENONE, "ended by SIGTERM %s; `%s` continues", after, r->config->continued);
}

/* The workers were warned and ended otherwise than they should: what they had written before is still there.
 */
static sl_status say_not_saved(const char *cause) {
    char text[900];
    snprintf(text, sizeof text, "%s", cause);
    return sl_error(SL_ENONE, "ended by SIGTERM, without a checkpoint for it: %s", text);
}

static sl_status interrupted(const run *r, int signal) {
    return sl_launch_is_warning(r->config, signal) ? say_continued(r) : sl_error(SL_ENONE, "interrupted");
}

static sl_status give_up(const run *r, sl_status status, const sl_attempt *attempt) {
    char cause[900];
    snprintf(cause, sizeof cause, "%s", sl_error_text());
    if (attempt->interrupted || (r->restarts == 0 && !attempt->warned))
        return status;
    if (attempt->warned)
        return say_not_saved(cause);
    if (r->restarts < r->config->restarts && status != SL_EPEER && r->fruitless >= FRUITLESS_MOST)
        return sl_error(status,
                        "%s (after %d restart%s; not tried again, because no new iteration was reached)",
                        cause, r->restarts, r->restarts == 1 ? "" : "s");
    return sl_error(status, "%s (after %d restart%s)", cause, r->restarts, r->restarts == 1 ? "" : "s");
}

/* ---- between two attempts ---- */

/* The signal that ended the pause; 0: none. */
static int rest(const run *r, sl_time pause) {
    struct timespec time = {.tv_sec = pause / SL_SECOND, .tv_nsec = pause % SL_SECOND};
    int signal = sigtimedwait(&r->signals.heard, NULL, &time);
    return signal > 0 ? signal : 0;
}

static void leave_out(const run *r, const sl_launch_host *host) {
    sl_event event = {.kind = SL_EVENT_HOST,
                      .time = sl_clock_now(sl_clock_real()) - r->started,
                      .iteration = r->reached + 1,
                      .from = -1,
                      .to = -1,
                      .rank = -1,
                      .decided = "left out"};
    snprintf(event.seen, sizeof event.seen, "host %.200s failed its test", host->name);
    copy_words(event.why, sizeof event.why, host->why);
    sl_terminal_clear_line(stderr);
    fprintf(stderr, "slackline: host %s failed its test and is left out: %s\n", host->name, host->why);
    tell(r, &event);
}

static sl_status too_few(const run *r) {
    char failed[600] = "";
    for (int i = 0; i < r->hosts.count; i++) {
        const sl_launch_host *host = &r->hosts.host[i];
        size_t used = strlen(failed);
        if (host->why[0])
            snprintf(failed + used, sizeof failed - used, "%s%s (%s)", used ? ", " : "", host->name,
                     host->why);
    }
    return sl_error(SL_ENONE,
                    "%d ranks need as many slots, but %d are left: these hosts failed their test: %s",
                    r->config->ranks, sl_launch_hosts_slots(&r->hosts), failed);
}

static sl_status choose_hosts(run *r, int *signal) {
    *signal = 0;
    if (!r->config->hosts)
        return SL_OK;
    SL_TRY(sl_launch_hosts_test(&r->hosts, r->config->worker[0], &r->folder, &r->signals, host_patience,
                                signal));
    if (*signal)
        return SL_OK;
    for (int i = 0; i < r->hosts.count; i++)
        if (r->hosts.host[i].why[0])
            leave_out(r, &r->hosts.host[i]);
    if (sl_launch_hosts_slots(&r->hosts) < r->config->ranks)
        return too_few(r);
    sl_free(r->living);
    r->living = NULL;
    return sl_launch_hosts_text(&r->hosts, &r->living);
}

/* ---- the run ---- */

static sl_status try_once(run *r, sl_attempt *attempt) {
    sl_launch_config config = *r->config;
    if (r->restarts > 0 && config.again && (config.resumed || r->written))
        config.worker = config.again;
    if (r->living)
        config.hosts = r->living;
    *attempt = (sl_attempt){.signals = &r->signals, .log = r->log};
    sl_status status = sl_launch_attempt(&config, &r->folder, attempt);
    char text[1024];
    snprintf(text, sizeof text, "%s", sl_error_text());
    take_stock(r);
    return status == SL_OK ? status : sl_error(status, "%s", text);
}

static sl_status try_until_done(run *r, int *exit_code) {
    for (;;) {
        sl_attempt attempt;
        int signal = 0;
        sl_status status = try_once(r, &attempt);
        *exit_code = attempt.exit_code;
        if (attempt.left)
            return say_continued(r);
        if (status == SL_OK)
            return SL_OK;
        if (!may_restart(r, status, &attempt))
            return give_up(r, status, &attempt);
        char cause[900];
        snprintf(cause, sizeof cause, "%s", sl_error_text());
        sl_time pause = pause_of(r);
        r->restarts++;
        *exit_code = 1;
        announce_restart(r, cause, pause);
        signal = rest(r, pause);
        if (signal == 0)
            SL_TRY(choose_hosts(r, &signal));
        if (signal != 0)
            return interrupted(r, signal);
    }
}

static sl_status open_run(run *r) {
    const sl_launch_config *config = r->config;
    SL_TRY(find_mpirun());
    if (config->hosts) {
        SL_TRY(sl_launch_hosts_read(config->hosts, &r->hosts));
        if (sl_launch_hosts_slots(&r->hosts) < config->ranks)
            return sl_error(SL_EINVAL, "the hosts have %d slots, but the run has %d ranks",
                            sl_launch_hosts_slots(&r->hosts), config->ranks);
        SL_TRY(sl_launch_hosts_text(&r->hosts, &r->living));
    }
    SL_TRY(sl_launch_folder_open(config->directory, &r->folder));
    snprintf(r->log, sizeof r->log, "%s/mpirun.log", r->folder.path);
    r->before = sl_launch_folder_reached(&r->folder);
    r->reached = r->best = config->resumed ? r->before.iteration : -1;
    return SL_OK;
}

sl_status sl_launch_run(const sl_launch_config *config, int *exit_code) {
    run *r;
    *exit_code = 1;
    SL_TRY(sl_alloc(&r, 1, sizeof *r));
    r->config = config;
    r->folder.lock = -1;
    r->started = sl_clock_now(sl_clock_real());
    sl_status status = open_run(r);
    if (status == SL_OK) {
        sl_launch_signals_block(&r->signals);
        status = try_until_done(r, exit_code);
        sl_launch_signals_restore(&r->signals);
    } else {
        *exit_code = sl_exit_code(status);
    }
    if (*exit_code == 2 &&
        r->log[0]) { /* a wrong request writes nothing, also when only a worker could see it */
        unlink(r->log);
        if (r->folder.made)
            rmdir(r->folder.path); /* not when a worker wrote into it */
    }
    sl_launch_folder_close(&r->folder);
    sl_launch_hosts_free(&r->hosts);
    sl_free(r->living);
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
    char place[PATH_MAX], candidate[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", place, sizeof place - 1);
    if (length <= 0)
        return sl_error_errno(SL_ESYS, "this program's place cannot be found");
    place[length] = 0;
    *strrchr(place, '/') = 0;
    int size = snprintf(candidate, sizeof candidate, "%s/%s", place, name);
    if (size < 0 || (size_t)size >= sizeof candidate || access(candidate, X_OK) != 0)
        return sl_error(SL_ENONE,
                        "%s is not in %s: it is built where Open MPI, oneDNN and xxHash are installed", name,
                        place);
    return sl_copy_text(path, candidate);
}
