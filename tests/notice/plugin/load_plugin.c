/* Loads a profiler as NCCL does, and plays one rank of a ring of four: 3 allreduces in 2 channels, with a
 * proxy thread. Usage: load_plugin HIGHEST [none]. NCCL_PROFILER_PLUGIN is a path or the NAME of
 * libnccl-profiler-NAME.so; the tables are looked up from version HIGHEST downward. Prints "version V mask
 * M". "none": plays no event. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "played_nccl.h"

enum { RANKS = 4, CALLS = 3, CHANNELS = 2, STEPS = 4 };

static played_nccl n;
static void *context, *collective[CALLS];
static int rank;

static void wait_ms(double ms) {
    struct timespec time = {0, (long)(ms * 1e6)};
    nanosleep(&time, NULL);
}

static void *open_library(void) {
    const char *name = getenv("NCCL_PROFILER_PLUGIN");
    char file[4096];
    void *library = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library && name) {
        snprintf(file, sizeof file, "libnccl-profiler-%s.so", name);
        library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

static void play_steps(void *send, void *receive) {
    for (int s = 0; s < STEPS; s++) {
        void *out = played_step(&n, context, send, rank, s), *in = played_step(&n, context, receive, rank, s);
        played_reach(&n, in, SL_NCCL_RECV_WAIT, 0);
        played_reach(&n, out, SL_NCCL_SEND_GPU_WAIT, 0);
        wait_ms(2);
        played_reach(&n, out, SL_NCCL_SEND_PEER_WAIT, 0);
        wait_ms(1);
        played_reach(&n, out, SL_NCCL_SEND_WAIT, 1000);
        wait_ms(4);
        played_stop(&n, out);
        played_reach(&n, in, SL_NCCL_RECV_FLUSH_WAIT, 1000);
        played_reach(&n, in, SL_NCCL_RECV_GPU_WAIT, 0);
        played_stop(&n, in);
    }
}

static void *proxy(void *unused) {
    (void)unused;
    for (int i = 0; i < CALLS; i++) {
        void *send[CHANNELS], *receive[CHANNELS], *kernel[CHANNELS];
        for (int c = 0; c < CHANNELS; c++) {
            send[c] = played_op(&n, context, collective[i], rank, getpid(), c, (rank + 1) % RANKS, STEPS, 1);
            receive[c] =
                played_op(&n, context, collective[i], rank, getpid(), c, (rank + 3) % RANKS, STEPS, 0);
            kernel[c] = played_kernel(&n, context, collective[i], c, 1000000);
        }
        for (int c = 0; c < CHANNELS; c++)
            play_steps(send[c], receive[c]);
        for (int c = 0; c < CHANNELS; c++) {
            played_reach(&n, kernel[c], SL_NCCL_KERNEL_STOP, 1000000 + 7000000 * (uint64_t)(c + 1));
            played_stop(&n, kernel[c]);
            played_stop(&n, send[c]);
            played_stop(&n, receive[c]);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    const char *text = getenv("RANK");
    char symbol[64];
    pthread_t thread;
    rank = text ? atoi(text) : 0;
    void *library = open_library();
    if (!library) {
        printf("not loaded: %s\n", dlerror());
        return 1;
    }
    for (n.version = argc > 1 ? atoi(argv[1]) : PLAYED_VERSIONS; n.version > 0 && !n.table; n.version--) {
        snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", n.version);
        n.table = dlsym(library, symbol);
    }
    n.version++;
    n.hash = 0x1234;
    context = played_open(&n, RANKS, rank);
    printf("version %d mask %d name %s\n", n.version, played_mask, *(const char **)n.table);
    if (argc <= 2) {
        for (int i = 0; i < CALLS; i++) {
            collective[i] = played_collective(&n, context, rank, 1000, CHANNELS);
            played_stop(&n, collective[i]); /* enqueued */
        }
        pthread_create(&thread, NULL, proxy, NULL);
        pthread_join(thread, NULL);
    }
    played_close(&n, context);
    dlclose(library);
    return 0;
}
