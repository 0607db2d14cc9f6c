#include "base/clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static sl_clock real_clock; /* stateless: only its address is used */

sl_clock *sl_clock_real(void) {
    return &real_clock;
}

int sl_clock_is_virtual(const sl_clock *clock) {
    return clock->kind != NULL;
}

void sl_clock_join(sl_clock *clock) {
    if (clock->kind)
        clock->kind->join(clock, 1);
}

void sl_clock_leave(sl_clock *clock) {
    if (clock->kind)
        clock->kind->join(clock, -1);
}

sl_time sl_clock_now(sl_clock *clock) {
    struct timespec t;
    if (clock->kind)
        return clock->kind->now(clock);
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
    if (clock->kind) {
        clock->kind->wait(clock, NULL, 0, deadline);
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
    if (clock->kind) {
        clock->kind->wait(clock, word, value, deadline);
        return;
    }
    if (real_wait(word, value, sl_clock_doze_until(deadline)) && deadline != SL_TIME_NEVER)
        real_wait(word, value, deadline);
}

void sl_clock_wake(sl_clock *clock, _Atomic uint32_t *word) {
    if (clock->kind)
        clock->kind->wake(clock, word);
    else
        syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

int sl_limit_is_over(const sl_limit *limit) {
    return (limit->stop && atomic_load_explicit(limit->stop, memory_order_relaxed)) ||
           sl_clock_now(sl_clock_real()) >= limit->deadline;
}

int sl_clock_stuck(sl_clock *clock) {
    return clock->kind && clock->kind->stuck(clock);
}
