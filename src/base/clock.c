#include "base/clock.h"
#include "base/memory.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* One thread that waits on the virtual clock. Lives on its stack; the clock's mutex guards it. */
typedef struct waiter {
    struct waiter *next;
    _Atomic uint32_t *word; /* NULL: only the deadline ends the wait */
    sl_time deadline;
    int released;
    pthread_cond_t condition;
} waiter;

struct sl_clock {
    int is_virtual;
    pthread_mutex_t mutex; /* guards all below */
    sl_time now;
    int participants, running;
    int stuck;
    waiter *waiters;
};

static sl_clock real_clock; /* stateless: only its address is used */

sl_clock *sl_clock_real(void) {
    return &real_clock;
}

int sl_clock_is_virtual(const sl_clock *clock) {
    return clock->is_virtual;
}

sl_status sl_clock_open_virtual(int participants, sl_clock **clock) {
    sl_clock *made;
    SL_TRY(sl_alloc(&made, 1, sizeof *made));
    made->is_virtual = 1;
    made->participants = made->running = participants;
    pthread_mutex_init(&made->mutex, NULL);
    *clock = made;
    return SL_OK;
}

void sl_clock_close(sl_clock *clock) {
    if (!clock || !clock->is_virtual)
        return;
    pthread_mutex_destroy(&clock->mutex);
    sl_free(clock);
}

static void release(sl_clock *clock, waiter *w) {
    if (w->released)
        return;
    w->released = 1;
    clock->running++;
    pthread_cond_signal(&w->condition);
}

/* When nobody runs, time jumps to the earliest deadline. All threads due then run; if there is no deadline,
 * everybody is stuck and is let go to find out. Called with the mutex held. */
static void advance(sl_clock *clock) {
    if (clock->running > 0 || !clock->waiters)
        return;
    sl_time earliest = SL_TIME_NEVER;
    for (waiter *w = clock->waiters; w; w = w->next)
        if (w->deadline < earliest)
            earliest = w->deadline;
    if (earliest == SL_TIME_NEVER)
        clock->stuck = 1;
    else if (earliest > clock->now)
        clock->now = earliest;
    for (waiter *w = clock->waiters; w; w = w->next)
        if (clock->stuck || w->deadline <= clock->now)
            release(clock, w);
}

void sl_clock_join(sl_clock *clock) {
    if (!clock->is_virtual)
        return;
    pthread_mutex_lock(&clock->mutex);
    clock->participants++;
    clock->running++;
    pthread_mutex_unlock(&clock->mutex);
}

void sl_clock_leave(sl_clock *clock) {
    if (!clock->is_virtual)
        return;
    pthread_mutex_lock(&clock->mutex);
    clock->participants--;
    clock->running--;
    advance(clock);
    pthread_mutex_unlock(&clock->mutex);
}

sl_time sl_clock_now(sl_clock *clock) {
    if (clock->is_virtual) {
        pthread_mutex_lock(&clock->mutex);
        sl_time now = clock->now;
        pthread_mutex_unlock(&clock->mutex);
        return now;
    }
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (sl_time)t.tv_sec * SL_SECOND + t.tv_nsec;
}

sl_time sl_now(void) {
    return sl_clock_now(sl_clock_real());
}

static struct timespec to_timespec(sl_time t) {
    if (t < 0)
        t = 0;
    return (struct timespec){.tv_sec = t / SL_SECOND, .tv_nsec = t % SL_SECOND};
}

/* The word is looked at under the mutex, and sl_clock_wake takes the mutex too, so no wake is missed. */
static void virtual_wait(sl_clock *clock, _Atomic uint32_t *word, uint32_t value, sl_time deadline) {
    pthread_mutex_lock(&clock->mutex);
    int idle = (!word || atomic_load(word) == value) && deadline > clock->now && !clock->stuck;
    if (idle) {
        waiter self = {.next = clock->waiters, .word = word, .deadline = deadline};
        pthread_cond_init(&self.condition, NULL);
        clock->waiters = &self;
        clock->running--;
        advance(clock);
        while (!self.released)
            pthread_cond_wait(&self.condition, &clock->mutex);
        for (waiter **w = &clock->waiters; *w; w = &(*w)->next)
            if (*w == &self) {
                *w = self.next;
                break;
            }
        pthread_cond_destroy(&self.condition);
    }
    pthread_mutex_unlock(&clock->mutex);
}

#define DOZE (3 * SL_MS / 10)

sl_time sl_clock_doze_until(sl_time deadline) {
    if (deadline == SL_TIME_NEVER || deadline - sl_clock_now(&real_clock) < 4 * DOZE)
        return deadline;
    return deadline - DOZE;
}

static void real_sleep(sl_time deadline) {
    struct timespec t = to_timespec(deadline);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) {
    }
}

void sl_clock_sleep_until(sl_clock *clock, sl_time deadline) {
    if (clock->is_virtual) {
        virtual_wait(clock, NULL, 0, deadline);
        return;
    }
    real_sleep(sl_clock_doze_until(deadline));
    real_sleep(deadline);
}

/* BITSET: the timeout is absolute, on CLOCK_MONOTONIC. Not PRIVATE: words may be shared between processes. */
static int real_wait(_Atomic uint32_t *word, uint32_t value, sl_time deadline) {
    struct timespec t = to_timespec(deadline);
    long woken = syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, deadline == SL_TIME_NEVER ? NULL : &t,
                         NULL, FUTEX_BITSET_MATCH_ANY);
    return woken != 0 && errno == ETIMEDOUT;
}

void sl_clock_wait(sl_clock *clock, _Atomic uint32_t *word, uint32_t value, sl_time deadline) {
    if (clock->is_virtual) {
        virtual_wait(clock, word, value, deadline);
        return;
    }
    if (real_wait(word, value, sl_clock_doze_until(deadline)) && deadline != SL_TIME_NEVER)
        real_wait(word, value, deadline);
}

void sl_clock_wake(sl_clock *clock, _Atomic uint32_t *word) {
    if (clock->is_virtual) {
        pthread_mutex_lock(&clock->mutex);
        for (waiter *w = clock->waiters; w; w = w->next)
            if (w->word == word)
                release(clock, w);
        pthread_mutex_unlock(&clock->mutex);
        return;
    }
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

int sl_limit_is_over(const sl_limit *limit) {
    return (limit->stop && atomic_load_explicit(limit->stop, memory_order_relaxed)) ||
           sl_clock_now(sl_clock_real()) >= limit->deadline;
}

int sl_clock_stuck(sl_clock *clock) {
    if (!clock->is_virtual)
        return 0;
    pthread_mutex_lock(&clock->mutex);
    int stuck = clock->stuck;
    pthread_mutex_unlock(&clock->mutex);
    return stuck;
}
