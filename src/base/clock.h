/* Time and every wait, behind one interface that is real or virtual.
 *
 * Real: CLOCK_MONOTONIC; waits sleep in the kernel (futex, clock_nanosleep), never spin. Virtual: time stands
 * still while any participating thread runs, and jumps to the earliest deadline when all of them wait, so a
 * test of the engine is exact to the nanosecond and takes no time; tests bring it along. Threads that use a
 * virtual clock bracket their life with sl_clock_join / sl_clock_leave; on the real clock both do nothing.
 *
 * A wait is on a 32-bit word, as with a futex: the thread that changes the word calls sl_clock_wake
 * afterwards. Words may be in memory shared between processes (real clock only). */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <stdatomic.h>
#include <stdint.h>

typedef struct sl_clock sl_clock;

/* Functions of a virtual clock (tests/virtual_clock.h). */
typedef struct sl_clock_kind {
    void (*join)(sl_clock *clock, int participants); /* 1, or -1: one ends */
    sl_time (*now)(sl_clock *clock);
    void (*wait)(sl_clock *clock, _Atomic uint32_t *word, uint32_t value,
                 sl_time deadline); /* word NULL: none */
    void (*wake)(sl_clock *clock, _Atomic uint32_t *word);
    int (*stuck)(sl_clock *clock);
} sl_clock_kind;

struct sl_clock {
    const sl_clock_kind *kind; /* NULL: real */
};

/** The process-wide real clock. Never fails, never freed. */
sl_clock *sl_clock_real(void);

/** One more participant (counted as running at once), for threads made later by a participant. */
void sl_clock_join(sl_clock *clock);
/** A participant ends; time no longer waits for it. */
void sl_clock_leave(sl_clock *clock);

sl_time sl_clock_now(sl_clock *clock);
/** The same of the real clock. */
sl_time sl_now(void);
void sl_clock_sleep_until(sl_clock *clock, sl_time deadline);

/** End of the first part of a wait in real time, so that a wait for `deadline` ends on time: a processor
 * takes 0.1 ms or more to wake up after long idling, so a long wait is split, and the delay of the first part
 * falls before the deadline. The waits of this header do so; this is for code that cannot use them. */
sl_time sl_clock_doze_until(sl_time deadline);

/** Sleeps while *word == value, at most until `deadline` (SL_TIME_NEVER: none). May return early; callers
 * loop. On a virtual clock a wait that nothing can end (all wait, no deadline) returns as well, and
 *  sl_clock_stuck says so: a deadlock is an error, not a hang. */
void sl_clock_wait(sl_clock *clock, _Atomic uint32_t *word, uint32_t value, sl_time deadline);
void sl_clock_wake(sl_clock *clock, _Atomic uint32_t *word);
int sl_clock_stuck(sl_clock *clock);

int sl_clock_is_virtual(const sl_clock *clock);

/* A time limit: a deadline on the real clock, or a stop flag. */
typedef struct sl_limit {
    sl_time deadline;
    const atomic_int *stop; /* nonzero: stop; written by the caller at any time. NULL: none */
} sl_limit;

int sl_limit_is_over(const sl_limit *limit);
