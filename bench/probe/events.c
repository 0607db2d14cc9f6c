/* ns per event of NCCL's profiler interface: a collective of one channel with its kernel, two proxy ops of 4
 * steps each, and all their states, as NCCL reports them while a profile is taken; and the start and stop of
 * a collective alone, which is all that it reports otherwise. Pairs: with the plug-in, and with a table that
 * does nothing. Prints for each: the events, ns of an event that does nothing, and what the plug-in adds, the
 * median and middle half of the pairs. Usage: events PLUG-IN, with the probe preloaded. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "notice/plugin/played_nccl.h"

enum { ROUNDS = 101, CALLS = 400, STEPS = 4 };

static int no_start(void *context, void **handle, sl_nccl_descriptor_v6 *d) {
    (void)context, (void)d;
    *handle = (void *)1;
    return 0;
}

static int no_stop(void *handle) {
    (void)handle;
    return 0;
}

static int no_record(void *handle, sl_nccl_state state, sl_nccl_arguments_v6 *a) {
    (void)handle, (void)state, (void)a;
    return 0;
}

static int events; /* calls of the table */

static void reduce_all(const played_nccl *n, void *context) {
    void *coll = played_collective(n, context, 0, 1000, 1);
    void *op[2] = {played_op(n, context, coll, 0, getpid(), 0, 1, STEPS, 1),
                   played_op(n, context, coll, 0, getpid(), 0, 1, STEPS, 0)};
    void *kernel = played_kernel(n, context, coll, 0, 5);
    played_stop(n, coll);
    for (int s = 0; s < STEPS; s++)
        for (int sends = 0; sends < 2; sends++) {
            void *step = played_step(n, context, op[sends], 0, s);
            played_reach(n, step, sends ? SL_NCCL_SEND_GPU_WAIT : SL_NCCL_RECV_WAIT, 0);
            played_reach(n, step, sends ? SL_NCCL_SEND_PEER_WAIT : SL_NCCL_RECV_FLUSH_WAIT, 0);
            played_reach(n, step, sends ? SL_NCCL_SEND_WAIT : SL_NCCL_RECV_GPU_WAIT, 100);
            played_stop(n, step);
        }
    played_reach(n, kernel, SL_NCCL_KERNEL_STOP, 9);
    played_stop(n, kernel);
    played_stop(n, op[0]);
    played_stop(n, op[1]);
    events = 2 + 2 * 2 + 3 + STEPS * 2 * 5;
}

static void call_alone(const played_nccl *n, void *context) {
    played_stop(n, played_collective(n, context, 0, 1000, 1));
    events = 2;
}

static double ns_of(void (*what)(const played_nccl *, void *), const played_nccl *n, void *context) {
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < CALLS; i++)
        what(n, context);
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) / CALLS /
           events;
}

static int less(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void compare(const char *name, void (*what)(const played_nccl *, void *), const played_nccl *n,
                    void *context, int mask) {
    static sl_nccl_table_v6 nothing = {"nothing", NULL, no_start, no_stop, no_record, NULL};
    const played_nccl bare = {.version = 6, .table = &nothing};
    double without[ROUNDS], added[ROUNDS];
    for (int round = -3; round < ROUNDS; round++) {
        played_mask = mask;
        double none = ns_of(what, &bare, NULL), one = ns_of(what, n, context);
        if (round >= 0) {
            without[round] = none;
            added[round] = one - none;
        }
    }
    qsort(without, ROUNDS, sizeof *without, less);
    qsort(added, ROUNDS, sizeof *added, less);
    printf("%s %d %.2f %.2f %.2f %.2f\n", name, events, without[ROUNDS / 2], added[ROUNDS / 2],
           added[ROUNDS / 4], added[3 * ROUNDS / 4]);
}

int main(int argc, char **argv) {
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    played_nccl n = {.version = 6, .hash = 3, .table = library ? dlsym(library, "ncclProfiler_v6") : NULL};
    void *context = n.table ? played_open(&n, 2, 0) : NULL;
    if (!context)
        return 1;
    if (played_mask & SL_NCCL_KERNEL)
        compare("profile", reduce_all, &n, context, played_mask);
    else
        compare("calls", call_alone, &n, context, played_mask);
    return 0;
}
