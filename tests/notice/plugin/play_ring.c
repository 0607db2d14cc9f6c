/* One rank of a job whose NCCL calls are played in real time: each iteration computes and reduces around a
 * ring, at times that all ranks work out alike from the clock that they share, so they need no messages. The
 * process loads the profiler as NCCL does; a second thread is its proxy. Usage: RANK=r WORLD_SIZE=n play_ring
 * BEGIN SECONDS SLOW_AFTER CULPRIT SLOWER COMPUTES. BEGIN: s, CLOCK_MONOTONIC. From SLOW_AFTER s on, messages
 * from rank CULPRIT take SLOWER times as long, and its computing COMPUTES times. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "played_nccl.h"

enum { CHANNELS = 2, STEPS = 4, QUEUE = 256 };
#define COMPUTING 0.040 /* s per iteration */
#define STEP 0.003      /* s of a step of the ring */

/* A collective on its way from the program's thread to the proxy's. */
typedef struct reduction {
    void *handle;
    double posted, own, all, pace, mine,
        before; /* own, all: when this rank, and the last one, has come; mine, before: a step of the
                   link to the next rank, and from the one before */
} reduction;

static played_nccl n;
static void *context;
static int rank, size;
static reduction queue[QUEUE];
static _Atomic int made, over;

static void until(double at) {
    struct timespec time = {(time_t)at, (long)((at - (double)(time_t)at) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0)
        ;
}

static uint64_t gpu(double at) {
    return (uint64_t)((at + 1000 * (rank + 1)) * 1e9);
}

static void play(const reduction *r) {
    void *send[CHANNELS], *receive[CHANNELS], *kernel[CHANNELS], *out[CHANNELS][STEPS], *in[CHANNELS][STEPS];
    double end = r->all + STEPS * r->pace;
    for (int c = 0; c < CHANNELS; c++) {
        send[c] = played_op(&n, context, r->handle, rank, getpid(), c, (rank + 1) % size, STEPS, 1);
        receive[c] = played_op(&n, context, r->handle, rank, getpid(), c, (rank + size - 1) % size, STEPS, 0);
        for (int s = 0; s < STEPS; s++) {
            out[c][s] = played_step(&n, context, send[c], rank, s);
            played_reach(&n, out[c][s], SL_NCCL_SEND_GPU_WAIT, 0);
            in[c][s] = played_step(&n, context, receive[c], rank, s);
            played_reach(&n, in[c][s], SL_NCCL_RECV_WAIT, 0);
        }
    }
    until(r->own);
    for (int c = 0; c < CHANNELS; c++)
        kernel[c] = played_kernel(&n, context, r->handle, c, gpu(r->own));
    for (int s = 0; s < STEPS; s++) {
        double start = r->all + s * r->pace;
        until(start);
        for (int c = 0; c < CHANNELS; c++)
            played_reach(&n, out[c][s], SL_NCCL_SEND_WAIT, 1000);
        for (int later = 0; later < 2; later++) { /* the shorter of both first */
            int sends = (r->mine <= r->before) == (later == 0);
            until(start + (sends ? r->mine : r->before));
            for (int c = 0; c < CHANNELS; c++) {
                if (!sends)
                    played_reach(&n, in[c][s], SL_NCCL_RECV_FLUSH_WAIT, 1000);
                played_stop(&n, sends ? out[c][s] : in[c][s]);
            }
        }
    }
    until(end);
    for (int c = 0; c < CHANNELS; c++) {
        played_reach(&n, kernel[c], SL_NCCL_KERNEL_STOP, gpu(end));
        played_stop(&n, kernel[c]);
        played_stop(&n, send[c]);
        played_stop(&n, receive[c]);
    }
}

static void *proxy(void *unused) {
    (void)unused;
    for (int taken = 0;;) {
        if (taken < atomic_load(&made))
            play(&queue[taken++ % QUEUE]);
        else if (atomic_load(&over))
            return NULL;
        else
            usleep(200);
    }
}

int main(int argc, char **argv) {
    if (argc != 7)
        return 2;
    double began = atof(argv[1]), seconds = atof(argv[2]), slow_after = atof(argv[3]);
    int culprit = atoi(argv[4]);
    double slower = atof(argv[5]), computes = atof(argv[6]);
    rank = atoi(getenv("RANK"));
    size = atoi(getenv("WORLD_SIZE"));
    const char *name = getenv("NCCL_PROFILER_PLUGIN");
    void *library = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    n = (played_nccl){.version = PLAYED_VERSIONS,
                      .hash = 0x51,
                      .table = library ? dlsym(library, "ncclProfiler_v6") : NULL};
    if (!n.table)
        return 3;
    context = played_open(&n, size, rank);
    pthread_t thread;
    pthread_create(&thread, NULL, proxy, NULL);
    for (double at = began; at < began + seconds;) {
        int slow = at > began + slow_after;
        double longest = COMPUTING * (slow && computes > 1 ? computes : 1), link = STEP * (slow ? slower : 1);
        int before = (rank + size - 1) % size;
        until(at);
        reduction r = {.posted = at,
                       .own = at + (rank == culprit ? longest : COMPUTING),
                       .all = at + longest,
                       .pace = link,
                       .mine = rank == culprit ? link : STEP,
                       .before = before == culprit ? link : STEP,
                       .handle = played_collective(&n, context, rank, 1000000, CHANNELS)};
        played_stop(&n, r.handle); /* enqueued */
        queue[atomic_load(&made) % QUEUE] = r;
        atomic_fetch_add(&made, 1);
        at = r.all + STEPS * link + 0.001;
    }
    atomic_store(&over, 1);
    pthread_join(thread, NULL);
    played_close(&n, context);
    return 0;
}
