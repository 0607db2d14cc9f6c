/* A virtual clock: time stands still while any participating thread runs, and jumps to the earliest deadline
 * when all of them wait (base/clock.h). */
#pragma once

#include "base/clock.h"
#include "base/memory.h"

#include <pthread.h>

/* One thread that waits on the clock. Lives on its stack; the clock's mutex guards it. */
typedef struct virtual_waiter {
    struct virtual_waiter *next;
    _Atomic uint32_t *word; /* NULL: only the deadline ends the wait */
    sl_time deadline;
    int released;
    pthread_cond_t condition;
} virtual_waiter;

typedef struct virtual_clock {
    sl_clock clock;        /* first: a clock is cast to this */
    pthread_mutex_t mutex; /* guards all below */
    sl_time now;
    int participants, running;
    int stuck;
    virtual_waiter *waiters;
} virtual_clock;

static void virtual_release(virtual_clock *clock, virtual_waiter *w) {
    if (w->released)
        return;
    w->released = 1;
    clock->running++;
    pthread_cond_signal(&w->condition);
}

/* When nobody runs, time jumps to the earliest deadline. All threads due then run; if there is no deadline,
 * everybody is stuck and is let go to find out. Called with the mutex held. */
static void virtual_advance(virtual_clock *clock) {
    if (clock->running > 0 || !clock->waiters)
        return;
    sl_time earliest = SL_TIME_NEVER;
    for (virtual_waiter *w = clock->waiters; w; w = w->next)
        if (w->deadline < earliest)
            earliest = w->deadline;
    if (earliest == SL_TIME_NEVER)
        clock->stuck = 1;
    else if (earliest > clock->now)
        clock->now = earliest;
    for (virtual_waiter *w = clock->waiters; w; w = w->next)
        if (clock->stuck || w->deadline <= clock->now)
            virtual_release(clock, w);
}

static void virtual_join(sl_clock *of, int participants) {
    virtual_clock *clock = (virtual_clock *)of;
    pthread_mutex_lock(&clock->mutex);
    clock->participants += participants;
    clock->running += participants;
    if (participants < 0)
        virtual_advance(clock);
    pthread_mutex_unlock(&clock->mutex);
}

static sl_time virtual_now(sl_clock *of) {
    virtual_clock *clock = (virtual_clock *)of;
    pthread_mutex_lock(&clock->mutex);
    sl_time now = clock->now;
    pthread_mutex_unlock(&clock->mutex);
    return now;
}

/* The word is looked at under the mutex, and virtual_wake takes the mutex too, so no wake is missed. */
static void virtual_wait(sl_clock *of, _Atomic uint32_t *word, uint32_t value, sl_time deadline) {
    virtual_clock *clock = (virtual_clock *)of;
    pthread_mutex_lock(&clock->mutex);
    int idle = (!word || atomic_load(word) == value) && deadline > clock->now && !clock->stuck;
    if (idle) {
        virtual_waiter self = {.next = clock->waiters, .word = word, .deadline = deadline};
        pthread_cond_init(&self.condition, NULL);
        clock->waiters = &self;
        clock->running--;
        virtual_advance(clock);
        while (!self.released)
            pthread_cond_wait(&self.condition, &clock->mutex);
        for (virtual_waiter **w = &clock->waiters; *w; w = &(*w)->next)
            if (*w == &self) {
                *w = self.next;
                break;
            }
        pthread_cond_destroy(&self.condition);
    }
    pthread_mutex_unlock(&clock->mutex);
}

static void virtual_wake(sl_clock *of, _Atomic uint32_t *word) {
    virtual_clock *clock = (virtual_clock *)of;
    pthread_mutex_lock(&clock->mutex);
    for (virtual_waiter *w = clock->waiters; w; w = w->next)
        if (w->word == word)
            virtual_release(clock, w);
    pthread_mutex_unlock(&clock->mutex);
}

static int virtual_stuck(sl_clock *of) {
    virtual_clock *clock = (virtual_clock *)of;
    pthread_mutex_lock(&clock->mutex);
    int stuck = clock->stuck;
    pthread_mutex_unlock(&clock->mutex);
    return stuck;
}

/* At time 0 with `participants` threads, counted as running from now on, before they have even started, so
 * that time cannot run ahead of a slow start. Close it after all of them left. */
static inline sl_status sl_clock_open_virtual(int participants, sl_clock **clock) {
    static const sl_clock_kind kind = {.join = virtual_join,
                                       .now = virtual_now,
                                       .wait = virtual_wait,
                                       .wake = virtual_wake,
                                       .stuck = virtual_stuck};
    virtual_clock *made;
    *clock = NULL;
    SL_TRY(sl_alloc(&made, 1, sizeof *made));
    made->clock.kind = &kind;
    made->participants = made->running = participants;
    pthread_mutex_init(&made->mutex, NULL);
    *clock = &made->clock;
    return SL_OK;
}

static inline void sl_clock_close(sl_clock *clock) {
    if (!clock || !clock->kind)
        return;
    pthread_mutex_destroy(&((virtual_clock *)clock)->mutex);
    sl_free(clock);
}
