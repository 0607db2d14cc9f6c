/* How a bench of two processes puts its transport on the delegated path: what a trainer does through MPI
 * (prepare, exchange blocks, start, use) goes through memory that both processes share. */
#ifndef SL_BENCH_DELEGATED_H
#define SL_BENCH_DELEGATED_H

#include "base/clock.h"
#include "launch/delegate_launch.h"
#include "run/transport/transport.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BENCH_BLOCK_MAX = 1 << 16 };

typedef struct bench_meeting {
    _Atomic uint32_t arrived;
    char block[2 * BENCH_BLOCK_MAX];
} bench_meeting;

/** Both processes come here before either goes on. A second of them that died leaves the first to its
 * patience: it returns 0. */
static inline int bench_meet(_Atomic uint32_t *arrived, uint32_t wanted) {
    sl_time until = sl_clock_now(sl_clock_real()) + 20 * SL_SECOND;
    uint32_t seen = atomic_fetch_add(arrived, 1) + 1;
    sl_clock_wake(sl_clock_real(), arrived);
    while (seen < wanted && sl_clock_now(sl_clock_real()) < until) {
        sl_clock_wait(sl_clock_real(), arrived, seen, until);
        seen = atomic_load(arrived);
    }
    return seen >= wanted;
}

/** slackline-delegate of this build: one folder above this program. */
static inline sl_launch_delegates *bench_delegates(const char *directory) {
    static sl_launch_delegates delegates;
    static char program[4096], where[256];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 32);
    if (length < 0)
        return NULL;
    program[length] = 0;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(program, '/');
        if (slash)
            *slash = 0;
    }
    strcat(program, "/slackline-delegate");
    snprintf(where, sizeof where, "%s", directory);
    delegates = (sl_launch_delegates){.program = program, .directory = where};
    return &delegates;
}

/** The transport of `rank` (0 or 1) of two goes through `count` delegates a direction from now on. */
static inline sl_status bench_use_delegates(sl_transport *t, int rank, int count, bench_meeting *meeting) {
    size_t size = sl_transport_block_bytes(t);
    if (size > BENCH_BLOCK_MAX)
        return sl_error(SL_EINVAL, "a block of %zu bytes", size);
    SL_TRY(sl_transport_prepare_delegates(t, count, meeting->block + (size_t)rank * size));
    if (!bench_meet(&meeting->arrived, 2))
        return sl_error(SL_EPEER, "the other process did not come");
    SL_TRY(sl_transport_start_delegates(t, meeting->block, 10 * SL_SECOND));
    return sl_transport_use(t, SL_PATH_DELEGATED);
}

#endif
