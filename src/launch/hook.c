#include "launch/hook.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/writer.h"
#include "launch/hook_run.h"
#include "launch/process.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE SL_SECOND         /* between SIGTERM and SIGKILL */
#define LOOK_AGAIN (20 * SL_MS) /* while children die */
#define GIVE_UP (5 * SL_SECOND) /* on children that do not die */
#define SLOW_READ (10 * SL_MS)  /* between two reads of what is thrown away */
enum { PIECE = 65536 };

typedef struct waiting {
    struct waiting *next;
    int64_t tag;
    char *title, *input;
    char **variable;
    int variables;
} waiting;

typedef enum stage { IDLE, RUNNING, TERMINATING, KILLING } stage;

struct sl_hook {
    sl_hook_config config;
    char *program, *log_path;
    sl_writer *log; /* NULL: none */
    int file, timer;
    waiting *first, *last;
    int count;
    sl_time opened;

    stage stage;
    waiting *now; /* what runs */
    sl_hook_run run;
    sl_time began, until; /* until: of the stage */
    sl_time read_at;      /* of discarded output; 0: read as it comes */
    size_t written;       /* of this run, into the log */
    long long thrown;     /* bytes */
    int wait_status, has_ended;
    unsigned runs;
};

static void forget(waiting *w) {
    if (!w)
        return;
    for (int i = 0; i < w->variables; i++)
        sl_free(w->variable[i]);
    SL_FREE(w->variable, w->title, w->input, w);
}

/* ---- the log ---- */

static void put(sl_hook *h, const char *text, size_t size) {
    if (h->log)
        sl_writer_put(h->log, h->log_path, SL_WRITER_APPEND, text, size, 0);
}

static void say(sl_hook *h, const char *what, const char *more) {
    char line[512];
    int used = snprintf(line, sizeof line, "--- %.3f s  %.200s%s%.250s\n",
                        (double)(sl_now() - h->opened) / 1e9, what, more[0] ? ": " : "", more);
    put(h, line, (size_t)used < sizeof line ? (size_t)used : sizeof line - 1);
}

/* ---- opening ---- */

sl_status sl_hook_look(const char *program) {
    char path[PATH_MAX];
    return sl_hook_find(program, path);
}

static sl_status open_files(sl_hook *h) {
    struct epoll_event event = {.events = EPOLLIN};
    h->file = epoll_create1(EPOLL_CLOEXEC);
    h->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    event.data.fd = h->timer;
    if (h->file < 0 || h->timer < 0 || epoll_ctl(h->file, EPOLL_CTL_ADD, h->timer, &event) != 0)
        return sl_error_errno(SL_ESYS, "the hook cannot be watched");
    return SL_OK;
}

sl_status sl_hook_open(const sl_hook_config *config, sl_hook **hook) {
    sl_hook *h;
    sl_status status;
    if (!config->program[0] || config->limit <= 0)
        return sl_error(SL_EINVAL, "a hook needs a program and a limit of time");
    SL_TRY(sl_alloc(&h, 1, sizeof *h));
    h->config = *config;
    h->file = h->timer = -1;
    h->run = (sl_hook_run)SL_HOOK_RUN_NONE;
    h->opened = sl_now();
    SL_TRY_GOTO(err_close, status, sl_copy_text(&h->program, config->program));
    if (config->log)
        SL_TRY_GOTO(err_close, status, sl_copy_text(&h->log_path, config->log));
    SL_TRY_GOTO(err_close, status, open_files(h));
    *hook = h;
    return SL_OK;
err_close:
    sl_hook_close(h);
    return status;
}

static void set_timer(sl_hook *h, sl_time when) {
    struct itimerspec spec = {0};
    if (when > 0 && when < SL_TIME_NEVER) {
        sl_time left = when - sl_now();
        left = left > 0 ? left : 1;
        spec.it_value.tv_sec = left / SL_SECOND;
        spec.it_value.tv_nsec = left % SL_SECOND;
    }
    timerfd_settime(h->timer, 0, &spec, NULL);
}

sl_status sl_hook_post(sl_hook *h, int64_t tag, const char *title, const char *input,
                       const char *const *variables, int count) {
    waiting *w;
    sl_status status;
    if (h->count >= SL_HOOK_WAITING)
        return sl_error(SL_ENONE, "%d events wait for %s already", h->count, h->program);
    SL_TRY(sl_alloc(&w, 1, sizeof *w));
    w->tag = tag;
    SL_TRY_GOTO(err_forget, status, sl_copy_text(&w->title, title));
    SL_TRY_GOTO(err_forget, status, sl_copy_text(&w->input, input));
    SL_TRY_GOTO(err_forget, status, sl_alloc(&w->variable, (size_t)count + 1, sizeof *w->variable));
    for (; w->variables < count; w->variables++)
        SL_TRY_GOTO(err_forget, status, sl_copy_text(&w->variable[w->variables], variables[w->variables]));
    if (h->last)
        h->last->next = w;
    else
        h->first = w;
    h->last = w;
    h->count++;
    if (h->stage == IDLE)
        set_timer(h, sl_now());
    return SL_OK;
err_forget:
    forget(w);
    return status;
}

int sl_hook_file(const sl_hook *h) {
    return h->file;
}

int sl_hook_pending(const sl_hook *h) {
    return h->count + (h->stage != IDLE);
}

/* ---- a run ---- */

static void watch(sl_hook *h, int file) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = file};
    epoll_ctl(h->file, EPOLL_CTL_ADD, file, &event);
}

static void unwatch(sl_hook *h, int file) {
    epoll_ctl(h->file, EPOLL_CTL_DEL, file, NULL);
}

/* Without a log the program runs as well. */
static void open_log(sl_hook *h) {
    if (!h->log && h->log_path)
        (void)sl_writer_open(SL_WRITER_MAX, &h->log);
}

static void report_end(sl_hook *h, sl_hook_result result, sl_time took, const char *said) {
    sl_hook_end end = {.tag = h->now->tag, .result = result, .took = took};
    snprintf(end.said, sizeof end.said, "%s", said);
    say(h, h->now->title, said);
    forget(h->now);
    h->now = NULL;
    h->stage = IDLE;
    if (h->config.ended)
        h->config.ended(h->config.context, &end);
}

static void start(sl_hook *h) {
    h->now = h->first;
    h->first = h->first->next;
    h->last = h->first ? h->last : NULL;
    h->count--;
    open_log(h);
    say(h, h->now->title, h->program);
    h->written = 0;
    h->thrown = 0;
    h->has_ended = 0;
    h->read_at = 0;
    h->began = sl_now();
    sl_status status = sl_hook_run_start(h->program, h->now->input, (const char *const *)h->now->variable,
                                         h->now->variables, h->runs++, &h->run);
    if (status != SL_OK) {
        report_end(h, SL_HOOK_ABSENT, 0, sl_error_text());
        return;
    }
    h->stage = RUNNING;
    h->until = h->began + h->config.limit;
    watch(h, h->run.output);
    if (h->run.process.file >= 0)
        watch(h, h->run.process.file);
}

/* At most one piece at a time, so that a flood does not block. Returns 0 if there is no more for now. */
static int read_piece(sl_hook *h) {
    char piece[PIECE];
    ssize_t got = read(h->run.output, piece, sizeof piece);
    if (got <= 0)
        return 0;
    size_t kept = h->written < SL_HOOK_LOGGED ? SL_HOOK_LOGGED - h->written : 0;
    kept = kept < (size_t)got ? kept : (size_t)got;
    put(h, piece, kept);
    h->written += kept;
    h->thrown += (long long)((size_t)got - kept);
    return 1;
}

static void read_output(sl_hook *h) {
    if (h->run.output < 0 || (h->read_at && sl_now() < h->read_at))
        return;
    if (!read_piece(h) && !h->read_at && errno != EAGAIN && errno != EINTR) { /* closed by all that had it */
        unwatch(h, h->run.output);
        close(h->run.output);
        h->run.output = -1;
        return;
    }
    if (h->thrown > 0) {
        if (!h->read_at)
            unwatch(h, h->run.output);
        h->read_at = sl_now() + SLOW_READ;
    }
}

static void finish(sl_hook *h) {
    char said[128];
    int code = WIFEXITED(h->wait_status) ? WEXITSTATUS(h->wait_status) : -1;
    sl_time took = sl_now() - h->began;
    for (int i = 0; i < 16 && h->run.output >= 0 && read_piece(h); i++)
        ;
    if (h->written > 0)
        put(h, "\n", 1);
    if (h->thrown > 0) {
        snprintf(said, sizeof said, "%lld bytes and more are left out", h->thrown);
        say(h, h->now->title, said);
    }
    if (h->stage != RUNNING)
        snprintf(said, sizeof said, "took longer than %g s and %s", (double)h->config.limit / 1e9,
                 h->has_ended ? "was ended" : "remains: SIGKILL does not end it");
    else if (code >= 0)
        snprintf(said, sizeof said, "exit %d after %.3f s", code, (double)took / 1e9);
    else
        snprintf(said, sizeof said, "killed by signal %d (%s) after %.3f s", WTERMSIG(h->wait_status),
                 strsignal(WTERMSIG(h->wait_status)), (double)took / 1e9);
    sl_hook_result result = h->stage != RUNNING        ? SL_HOOK_FAILED
                            : code == 0                ? SL_HOOK_DONE
                            : code == SL_HOOK_NOT_MINE ? SL_HOOK_PASSED
                                                       : SL_HOOK_FAILED;
    sl_hook_run_close(&h->run);
    report_end(h, result, took, said);
}

/* Whether the process itself has ended. After it is fetched its id may be reused. */
static int fetch(sl_hook *h) {
    h->has_ended = h->has_ended || sl_subprocess_wait(&h->run.process, 0, &h->wait_status);
    return h->has_ended;
}

/* Its own group first, before its id is fetched; then all with its mark. Returns the number still alive. */
static int signal_all(sl_hook *h, int number) {
    if (!h->has_ended) {
        sl_process_signal_descendants(h->run.process.pid, 0, number);
        kill(-h->run.process.pid, number);
    }
    int living = sl_process_signal_marked(h->run.mark, number);
    return living > 0 ? living : 0;
}

static void proceed(sl_hook *h) {
    sl_time time = sl_now();
    if (h->stage == RUNNING && fetch(h)) {
        finish(h);
        return;
    }
    if (h->stage == RUNNING && time >= h->until) {
        signal_all(h, SIGTERM);
        h->stage = TERMINATING;
        h->until = time + GRACE;
    }
    if (h->stage == TERMINATING && (time >= h->until || fetch(h))) {
        h->stage = KILLING;
        h->until = time + GIVE_UP;
    }
    if (h->stage == KILLING) {
        int living = signal_all(h, SIGKILL);
        if ((fetch(h) && living == 0) || time >= h->until) {
            finish(h);
        }
    }
}

static sl_time next(const sl_hook *h) {
    sl_time when = h->stage == IDLE ? (h->first ? sl_now() : SL_TIME_NEVER) : h->until;
    if (h->stage == KILLING || (h->stage == RUNNING && h->run.process.file < 0))
        when = sl_now() + LOOK_AGAIN;
    if (h->stage != IDLE && h->read_at && h->read_at < when)
        when = h->read_at;
    return when;
}

void sl_hook_step(sl_hook *h) {
    uint64_t expirations;
    (void)!read(h->timer, &expirations, sizeof expirations);
    if (h->stage != IDLE)
        read_output(h);
    if (h->stage != IDLE)
        proceed(h);
    if (h->stage == IDLE && h->first)
        start(h);
    set_timer(h, next(h));
}

void sl_hook_close(sl_hook *h) {
    if (!h)
        return;
    sl_time deadline = sl_now() + GIVE_UP;
    while (h->stage != IDLE && sl_now() < deadline) {
        int living = signal_all(h, SIGKILL);
        if (fetch(h) && living == 0)
            break;
        sl_clock_sleep_until(sl_clock_real(), sl_now() + LOOK_AGAIN / 4);
    }
    if (h->stage != IDLE) {
        say(h, h->now->title,
            h->has_ended ? "ended: it is no longer awaited" : "remains: SIGKILL does not end it");
        sl_hook_run_close(&h->run);
    }
    forget(h->now);
    while (h->first) {
        waiting *w = h->first;
        h->first = w->next;
        forget(w);
    }
    if (h->log)
        sl_writer_flush(h->log, SL_WRITER_PATIENCE);
    sl_writer_close(h->log);
    if (h->timer >= 0)
        close(h->timer);
    if (h->file >= 0)
        close(h->file);
    SL_FREE(h->program, h->log_path, h);
}
