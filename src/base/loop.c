#include "base/loop.h"
#include "base/clock.h"
#include "base/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

typedef struct sl_watch {
    int file;
    int writable;           /* also called when it can be written to */
    sl_loop_file_call call; /* NULL: this slot is free */
    void *context;
} sl_watch;

typedef struct sl_timer {
    sl_loop_timer name; /* 0: free */
    sl_time deadline;
    sl_loop_time_call call;
    void *context;
} sl_timer;

struct sl_loop {
    int epoll, clock, signal; /* files; signal -1: none */
    sl_watch *watch;
    size_t watches;
    sl_timer *timer;
    size_t timers;
    sl_loop_timer last_name;
    sl_loop_signal_call signal_call;
    void *signal_context;
    int stopped;
};

static sl_status add(sl_loop *loop, int file) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = file};
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, file, &event) != 0)
        return sl_error_errno(SL_ESYS, "a file cannot be waited for");
    return SL_OK;
}

sl_status sl_loop_open(sl_loop **result) {
    sl_loop *loop;
    SL_TRY(sl_alloc(&loop, 1, sizeof *loop));
    loop->signal = -1;
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->clock = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    sl_status status = SL_OK;
    if (loop->epoll < 0 || loop->clock < 0)
        status = sl_error_errno(SL_ESYS, "an event loop cannot be made");
    else
        status = add(loop, loop->clock);
    if (status != SL_OK) {
        sl_loop_close(loop);
        return status;
    }
    *result = loop;
    return SL_OK;
}

void sl_loop_close(sl_loop *loop) {
    if (!loop)
        return;
    int files[] = {loop->epoll, loop->clock, loop->signal};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i] >= 0)
            close(files[i]);
    SL_FREE(loop->watch, loop->timer, loop);
}

static sl_watch *find(sl_loop *loop, int file) {
    for (size_t i = 0; i < loop->watches; i++)
        if (loop->watch[i].call && loop->watch[i].file == file)
            return &loop->watch[i];
    return NULL;
}

sl_status sl_loop_watch(sl_loop *loop, int file, sl_loop_file_call call, void *context) {
    if (find(loop, file))
        return sl_error(SL_EINVAL, "file %d is watched already", file);
    size_t i = 0;
    while (i < loop->watches && loop->watch[i].call)
        i++;
    if (i == loop->watches)
        SL_TRY(sl_grow(&loop->watch, &loop->watches, i + 1, sizeof *loop->watch));
    SL_TRY(add(loop, file));
    loop->watch[i] = (sl_watch){.file = file, .call = call, .context = context};
    return SL_OK;
}

sl_status sl_loop_watch_writable(sl_loop *loop, int file, int wanted) {
    sl_watch *watch = find(loop, file);
    if (!watch)
        return sl_error(SL_EINVAL, "file %d is not watched", file);
    if (watch->writable == !!wanted)
        return SL_OK;
    struct epoll_event event = {.events = EPOLLIN | (wanted ? (uint32_t)EPOLLOUT : 0u), .data.fd = file};
    if (epoll_ctl(loop->epoll, EPOLL_CTL_MOD, file, &event) != 0)
        return sl_error_errno(SL_ESYS, "file %d cannot be waited for", file);
    watch->writable = !!wanted;
    return SL_OK;
}

void sl_loop_unwatch(sl_loop *loop, int file) {
    sl_watch *watch = find(loop, file);
    if (!watch)
        return;
    epoll_ctl(loop->epoll, EPOLL_CTL_DEL, file, NULL);
    memset(watch, 0, sizeof *watch);
}

/* Points the one timerfd at the earliest deadline, by absolute time, so that lateness never adds up. */
static sl_status arm(sl_loop *loop) {
    sl_time first = SL_TIME_NEVER;
    for (size_t i = 0; i < loop->timers; i++)
        if (loop->timer[i].name && loop->timer[i].deadline < first)
            first = loop->timer[i].deadline;
    struct itimerspec when = {0};
    if (first != SL_TIME_NEVER) {
        first = sl_clock_doze_until(first); /* at that time nothing is due, and this runs again */
        sl_time at = first > 0 ? first : 1; /* 0 would disarm it */
        when.it_value.tv_sec = at / SL_SECOND;
        when.it_value.tv_nsec = at % SL_SECOND;
    }
    if (timerfd_settime(loop->clock, TFD_TIMER_ABSTIME, &when, NULL) != 0)
        return sl_error_errno(SL_ESYS, "a timer cannot be set");
    return SL_OK;
}

sl_status sl_loop_at(sl_loop *loop, sl_time deadline, sl_loop_time_call call, void *context,
                     sl_loop_timer *name) {
    size_t i = 0;
    while (i < loop->timers && loop->timer[i].name)
        i++;
    if (i == loop->timers)
        SL_TRY(sl_grow(&loop->timer, &loop->timers, i + 1, sizeof *loop->timer));
    loop->timer[i] = (sl_timer){++loop->last_name, deadline, call, context};
    if (name)
        *name = loop->last_name;
    return arm(loop);
}

void sl_loop_forget(sl_loop *loop, sl_loop_timer name) {
    for (size_t i = 0; i < loop->timers; i++)
        if (name && loop->timer[i].name == name)
            loop->timer[i].name = 0;
}

/* Calls the timers that are due, earliest first; timers that they set are for the next turn. */
static sl_status call_timers(sl_loop *loop) {
    uint64_t expirations;
    if (read(loop->clock, &expirations, sizeof expirations) < 0 && errno != EAGAIN && errno != EINTR)
        return sl_error_errno(SL_ESYS, "a timer cannot be read");
    sl_time now = sl_now();
    sl_loop_timer newest = loop->last_name;
    while (!loop->stopped) {
        sl_timer *due = NULL;
        for (size_t i = 0; i < loop->timers; i++) {
            sl_timer *timer = &loop->timer[i];
            if (timer->name && timer->name <= newest && timer->deadline <= now &&
                (!due || timer->deadline < due->deadline))
                due = timer;
        }
        if (!due)
            break;
        sl_timer timer = *due;
        due->name = 0;
        SL_TRY(timer.call(timer.context));
    }
    return arm(loop);
}

sl_status sl_loop_signals(sl_loop *loop, const sigset_t *set, sl_loop_signal_call call, void *context) {
    if (loop->signal >= 0)
        return sl_error(SL_EINVAL, "the loop waits for signals already");
    loop->signal = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (loop->signal < 0)
        return sl_error_errno(SL_ESYS, "signals cannot be waited for");
    loop->signal_call = call;
    loop->signal_context = context;
    return add(loop, loop->signal);
}

static sl_status call_signals(sl_loop *loop) {
    struct signalfd_siginfo seen;
    while (!loop->stopped && read(loop->signal, &seen, sizeof seen) == (ssize_t)sizeof seen) {
        siginfo_t signal = {.si_signo = (int)seen.ssi_signo, .si_code = seen.ssi_code};
        signal.si_pid = (pid_t)seen.ssi_pid;
        SL_TRY(loop->signal_call(loop->signal_context, &signal));
    }
    return SL_OK;
}

static sl_status call_one(sl_loop *loop, int file) {
    if (file == loop->clock)
        return call_timers(loop);
    if (file == loop->signal)
        return call_signals(loop);
    sl_watch *watch = find(loop, file); /* NULL: a callback of this turn has unwatched it */
    return watch ? watch->call(watch->context, file) : SL_OK;
}

sl_status sl_loop_run(sl_loop *loop) {
    struct epoll_event events[16];
    loop->stopped = 0;
    while (!loop->stopped) {
        int count = epoll_wait(loop->epoll, events, sizeof events / sizeof *events, -1);
        if (count < 0 && errno != EINTR)
            return sl_error_errno(SL_ESYS, "waiting failed");
        for (int i = 0; i < count && !loop->stopped; i++)
            SL_TRY(call_one(loop, events[i].data.fd));
    }
    return SL_OK;
}

void sl_loop_stop(sl_loop *loop) {
    loop->stopped = 1;
}
