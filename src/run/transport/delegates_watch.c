#include "base/clock.h"
#include "base/memory.h"
#include "base/signals.h"
#include "run/transport/delegates_inside.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEATHS_MAX 20
#define DEATHS_WITHIN (10 * SL_SECOND)
#define AGAIN (50 * SL_MS) /* after a start that failed; between looks at one without a pidfd */

static void note(sl_delegate *e, const char *text) {
    sl_delegates *d = e->all;
    pthread_mutex_lock(&d->mutex);
    if (d->put - d->taken < SL_DELEGATES_EVENTS) {
        sl_transport_event *happened = &d->happened[d->put++ % SL_DELEGATES_EVENTS];
        *happened = (sl_transport_event){.kind = SL_TRANSPORT_REPLACED,
                                         .from = e->order->from,
                                         .to = e->order->to,
                                         .number = e->order->number,
                                         .rail = -1,
                                         .time = sl_now()};
        snprintf(happened->text, sizeof happened->text, "%s", text);
    }
    pthread_mutex_unlock(&d->mutex);
}

int sl_delegates_watch_event(sl_delegates *d, sl_transport_event *happened) {
    pthread_mutex_lock(&d->mutex);
    int some = d->put != d->taken;
    if (some)
        *happened = d->happened[d->taken++ % SL_DELEGATES_EVENTS];
    pthread_mutex_unlock(&d->mutex);
    return some;
}

int sl_delegates_living(sl_delegates *d, int *pids, int most) {
    int count = 0;
    pthread_mutex_lock(&d->mutex);
    for (int i = 0; i < d->delegates; i++)
        if (d->delegate[i].started.pid) {
            if (count < most)
                pids[count] = d->delegate[i].started.pid;
            count++;
        }
    pthread_mutex_unlock(&d->mutex);
    return count;
}

/* The delegate is dead and stays so. */
static void give_up(sl_delegate *e, const char *reason) {
    sl_queue_lose(&e->stream.queue, reason);
    atomic_store(&e->order->up, SL_DELEGATE_FAILED);
    sl_clock_wake(sl_clock_real(), &e->order->up);
}

/* 1 when this death is one too many within the time. */
static int is_too_many(sl_delegates *d) {
    sl_time now = sl_now();
    sl_time *oldest = &d->death[d->deaths % (uint64_t)d->deaths_max];
    int many = d->deaths >= (uint64_t)d->deaths_max && now - *oldest < DEATHS_WITHIN;
    *oldest = now;
    d->deaths++;
    return many;
}

static sl_status look(void *object);

static sl_status call_later(sl_delegate *e, sl_status (*call)(void *)) {
    return sl_loop_at(e->all->loop, sl_now() + AGAIN, call, e, NULL);
}

static sl_status on_death(void *object, int file) {
    sl_delegate *e = object;
    sl_loop_unwatch(e->all->loop, file);
    return look(e);
}

static sl_status watch_end(sl_delegate *e) {
    return e->started.file >= 0 ? sl_loop_watch(e->all->loop, e->started.file, on_death, e)
                                : call_later(e, look);
}

static sl_status start(sl_delegate *e) {
    const sl_delegates_config *c = e->all->config;
    const sl_delegate_order *o = e->order;
    int files[SL_DELEGATE_LISTENING - SL_DELEGATE_MEMORY + SL_RAILS_MAX] = {e->memory, e->doorbell,
                                                                            e->all->page};
    int count = SL_DELEGATE_LISTENING - SL_DELEGATE_MEMORY;
    char name[96];
    for (int i = 0; i < o->rails && !o->sends; i++)
        files[count++] = e->listening[i];
    snprintf(name, sizeof name, "%d->%d.%d %s of rank %d", o->from, o->to, o->number,
             o->sends ? "sender" : "receiver", c->rank);
    sl_subprocess started = SL_SUBPROCESS_NONE;
    atomic_store(&e->order->up, 0);
    SL_TRY(c->starter.start(c->starter.object, name, files, count, &started));
    pthread_mutex_lock(&e->all->mutex);
    e->started = started;
    pthread_mutex_unlock(&e->all->mutex);
    return watch_end(e);
}

static sl_status start_again(void *object);

/* A start that fails counts as a death, and is retried a little later. */
static sl_status replace(sl_delegate *e, const char *how) {
    char reason[160];
    if (is_too_many(e->all)) {
        snprintf(reason, sizeof reason, "%d delegates died within %d s; the last one, %s %d, %s",
                 e->all->deaths_max + 1, (int)(DEATHS_WITHIN / SL_SECOND),
                 e->order->sends ? "sender" : "receiver", e->order->number, how);
        give_up(e, reason);
        return SL_OK;
    }
    if (start(e) == SL_OK) {
        note(e, how);
        return SL_OK;
    }
    return call_later(e, start_again);
}

static sl_status start_again(void *object) {
    char how[128];
    snprintf(how, sizeof how, "could not be replaced: %.100s", sl_error_text());
    return replace(object, how);
}

static void describe(int status, char *text, size_t room) {
    if (status == SL_SUBPROCESS_UNKNOWN)
        snprintf(text, room, "is gone");
    else if (WIFEXITED(status))
        snprintf(text, room, "exited with code %d", WEXITSTATUS(status));
    else
        snprintf(text, room, "was killed by signal %d", WTERMSIG(status));
}

static sl_status look(void *object) {
    sl_delegate *e = object;
    int status;
    char how[64];
    if (!sl_subprocess_await(&e->started, 0))
        return call_later(e, look);
    pthread_mutex_lock(&e->all->mutex);
    sl_subprocess_wait(&e->started, 0, &status);
    pthread_mutex_unlock(&e->all->mutex);
    describe(status, how, sizeof how);
    if (atomic_load(&e->stream.queue.queue->lost)) {
        give_up(e, "its delegate gave up"); /* the reason is set; wakes those waiting for a rail */
        return SL_OK;
    }
    return replace(e, how);
}

static sl_status on_control(void *object, int file) {
    sl_delegates *d = object;
    (void)file;
    sl_loop_stop(d->loop);
    return SL_OK;
}

static sl_status start_all(sl_delegates *d) {
    SL_TRY(sl_loop_watch(d->loop, d->control, on_control, d));
    for (int i = 0; i < d->delegates; i++)
        SL_TRY(start(&d->delegate[i]));
    return SL_OK;
}

static void stop_all(sl_delegates *d) {
    const sl_transport_starter *s = &d->config->starter;
    for (int i = 0; i < d->delegates; i++)
        if (d->delegate[i].started.pid && d->delegate[i].started.file >= 0)
            sl_loop_unwatch(d->loop, d->delegate[i].started.file);
    sl_subprocess *all;
    if (sl_alloc(&all, (size_t)d->delegates, sizeof *all) != SL_OK) {
        for (int i = 0; i < d->delegates; i++)
            s->stop(s->object, &d->delegate[i].started, 1);
        return;
    }
    pthread_mutex_lock(&d->mutex); /* a reader of the list would see them die */
    for (int i = 0; i < d->delegates; i++) {
        all[i] = d->delegate[i].started;
        d->delegate[i].started = SL_SUBPROCESS_NONE;
    }
    pthread_mutex_unlock(&d->mutex);
    s->stop(s->object, all, d->delegates);
    sl_free(all);
}

static void enter(sl_delegates *d, uint32_t phase) {
    atomic_store(&d->phase, phase);
    sl_clock_wake(sl_clock_real(), &d->phase);
}

static void *watch(void *object) {
    sl_delegates *d = object;
    sl_status status = start_all(d);
    if (status != SL_OK)
        snprintf(d->reason, sizeof d->reason, "%s", sl_error_text());
    enter(d, status == SL_OK ? 1 : 2);
    if (status == SL_OK && sl_loop_run(d->loop) != SL_OK) /* no thread would watch any more */
        for (int i = 0; i < d->delegates; i++)
            sl_queue_lose(&d->delegate[i].stream.queue, sl_error_text());
    stop_all(d);
    return NULL;
}

static sl_status start_thread(sl_delegates *d) {
    int error = sl_thread_start(&d->thread, watch, d);
    if (error)
        return sl_error(SL_ESYS, "rank %d: no thread to watch delegates: %s", d->config->rank,
                        strerror(error));
    d->running = 1;
    return SL_OK;
}

sl_status sl_delegates_watch(sl_delegates *d) {
    d->deaths_max = d->config->deaths_max > 0 ? d->config->deaths_max : DEATHS_MAX;
    SL_TRY(sl_alloc(&d->death, (size_t)d->deaths_max, sizeof *d->death));
    SL_TRY(sl_loop_open(&d->loop));
    d->control = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (d->control < 0)
        return sl_error_errno(SL_ESYS, "no event for the watcher of delegates");
    SL_TRY(start_thread(d));
    while (atomic_load(&d->phase) == 0)
        sl_clock_wait(sl_clock_real(), &d->phase, 0, SL_TIME_NEVER);
    return atomic_load(&d->phase) == 1 ? SL_OK : sl_error(SL_ESYS, "%s", d->reason);
}

void sl_delegates_unwatch(sl_delegates *d) {
    uint64_t one = 1;
    if (d->running) {
        if (write(d->control, &one, sizeof one) < 0) {
            /* full: it has been rung */
        }
        pthread_join(d->thread, NULL);
        d->running = 0;
    }
    if (d->control > 0)
        close(d->control);
    d->control = 0;
    sl_loop_close(d->loop);
    d->loop = NULL;
    sl_free(d->death);
    d->death = NULL;
}
