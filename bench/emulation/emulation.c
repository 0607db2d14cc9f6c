/* How accurate emulated links are, by the method of CrossPipe's appendix F.2: half round trips of a ping-pong
 * for latency, the mean distance of messages sent back-to-back for bandwidth, over many settings, between two
 * processes.
 *
 *   bench_emulation PATH [ROUNDS]      default: 60 rounds
 *
 * PATH: shared (ranks of one host) or tcp (ranks of two, over the loopback interface), each also with
 * "-delegated" behind it: through slackline-delegate processes.
 *
 * A line a setting on standard output: what is measured, latency ms, bandwidth Gbit/s, bytes, what is
 * expected in ms, then of what was measured p10, p50, p90, p99, all in ms. Both clocks of a round trip are
 * the sender's own, and every figure is taken where an application would take it, behind
 * sl_transport_wait: waking the waiting thread counts as an error of the emulation. */
#include "base/clock.h"
#include "base/file.h"
#include "delegated.h"
#include "run/transport/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRAIN 16 /* messages back-to-back */
#define LARGEST 4000000
#define PATIENCE (20 * SL_SECOND)

typedef struct setting {
    int train; /* 0: ping-pong */
    double latency_ms, gbps;
    size_t bytes;
} setting;

/* clang-format off */
static const setting settings[] = {
    {0, 0, 0, 50000}, {0, 1, 0, 50000}, {0, 5, 0, 50000}, {0, 20, 0, 50000}, {0, 60, 0, 50000},
    {0, 0, 0, 1000000}, {0, 20, 0, 1000000}, {0, 5, 1, 1000000},
    {1, 0, 0, 1000000}, {1, 0, 10, 4000000}, {1, 0, 5, 1000000}, {1, 0, 1, 1000000}, {1, 0, 1, 50000},
    {1, 0, 0.1, 50000}, {1, 20, 1, 1000000}, {1, 60, 0.5, 1000000}};
/* clang-format on */
enum { SETTINGS = sizeof settings / sizeof *settings };

typedef struct path {
    const char *name;
    int tcp, delegated;
} path;

static const path paths[] = {
    {"shared", 0, 0}, {"tcp", 1, 0}, {"shared-delegated", 0, 1}, {"tcp-delegated", 1, 1}};
enum { PATHS = sizeof paths / sizeof *paths };

typedef struct shared {
    bench_meeting meeting;
    sl_transport_address address[2];
    _Atomic uint32_t listening;
    uint32_t rounds;
    sl_time sample[]; /* [SETTINGS * rounds] */
} shared;

static char directory[64];

static void must(sl_status status) {
    if (status == SL_OK)
        return;
    fprintf(stderr, "bench_emulation: %s\n", sl_error_text());
    _exit(1);
}

/* Different host names make the transport go through TCP. */
static sl_transport *open_rank(shared *s, int rank, const path *way) {
    sl_transport *t;
    int socket = -1;
    if (way->tcp) {
        must(sl_transport_listen("127.0.0.1", &s->address[rank], &socket));
        snprintf(s->address[rank].host, sizeof s->address[rank].host, "host%d", rank);
        atomic_fetch_add(&s->listening, 1);
        sl_clock_wake(sl_clock_real(), &s->listening);
        sl_time until = sl_clock_now(sl_clock_real()) + PATIENCE;
        while (atomic_load(&s->listening) < 2 && sl_clock_now(sl_clock_real()) < until)
            sl_clock_wait(sl_clock_real(), &s->listening, 1, until);
    }
    sl_transport_config config = {.rank = rank,
                                  .ranks = 2,
                                  .clock = sl_clock_real(),
                                  .directory = directory,
                                  .addresses = way->tcp ? s->address : NULL,
                                  .key = {1},
                                  .message_bytes = LARGEST,
                                  .slots = TRAIN};
    static const char *const rail[] = {"127.0.0.1"};
    sl_transport_starter starter = sl_launch_delegate_starter(bench_delegates(directory));
    config.starter = &starter;
    config.rails = rail;
    config.rail_count = 1;
    must(sl_transport_open(&config, socket, PATIENCE, &t));
    if (way->delegated)
        must(bench_use_delegates(t, rank, 1, &s->meeting));
    return t;
}

static sl_time deadline(void) {
    return sl_clock_now(sl_clock_real()) + PATIENCE;
}

static void send_one(sl_transport *t, int peer, uint32_t round, uint32_t index, const void *data,
                     size_t bytes) {
    must(sl_transport_send(t, peer, round, index, data, bytes, sl_clock_now(sl_clock_real())));
}

static sl_time take_one(sl_transport *t, int peer, uint32_t round, uint32_t index) {
    must(sl_transport_wait(t, peer, round, index, deadline(), NULL));
    return sl_clock_now(sl_clock_real());
}

static void forget_one(sl_transport *t, int peer, uint32_t round, uint32_t index) {
    sl_sent sent;
    must(sl_transport_wait_sent(t, peer, round, index, deadline(), &sent));
}

/* Rank 0 sends, rank 1 answers at once; the sample is half of what rank 0 saw. */
static sl_time ping(sl_transport *t, int rank, const setting *s, uint32_t round, char *buffer) {
    sl_time begin = 0, end;
    must(sl_transport_receive(t, 1 - rank, round, 0, buffer, s->bytes));
    if (rank == 0) {
        begin = sl_clock_now(sl_clock_real());
        send_one(t, 1, round, 0, buffer + LARGEST, s->bytes);
    }
    end = take_one(t, 1 - rank, round, 0);
    if (rank == 1)
        send_one(t, 0, round, 0, buffer + LARGEST, s->bytes);
    forget_one(t, 1 - rank, round, 0);
    return (end - begin) / 2;
}

/* Rank 0 sends TRAIN messages back-to-back, rank 1 has posted matching receives; the sample is the mean
 * distance of what rank 1 saw. A message back starts the next round. */
static sl_time train(sl_transport *t, int rank, const setting *s, uint32_t round, char *buffer) {
    sl_time first = 0, last = 0;
    if (rank == 1)
        for (uint32_t i = 0; i < TRAIN; i++)
            must(sl_transport_receive(t, 0, round, i, buffer, s->bytes));
    else
        must(sl_transport_receive(t, 1, round, 0, buffer, 1));
    for (uint32_t i = 0; i < TRAIN; i++) {
        if (rank == 0) {
            send_one(t, 1, round, i, buffer + LARGEST, s->bytes);
            continue;
        }
        last = take_one(t, 0, round, i);
        first = i == 0 ? last : first;
    }
    for (uint32_t i = 0; i < TRAIN && rank == 0; i++)
        forget_one(t, 1, round, i);
    if (rank == 1)
        send_one(t, 0, round, 0, buffer + LARGEST, 1);
    else
        take_one(t, 1, round, 0);
    if (rank == 1)
        forget_one(t, 0, round, 0);
    return (last - first) / (TRAIN - 1);
}

static void run_rank(shared *s, int rank, const path *way) {
    sl_transport *t = open_rank(s, rank, way);
    char *buffer = calloc(2, LARGEST);
    if (!buffer)
        _exit(1);
    for (uint32_t i = 0; i < SETTINGS; i++) {
        const setting *one = &settings[i];
        sl_transport_emulate(t, 1 - rank,
                             (sl_link_emulation){.latency = sl_from_ms(one->latency_ms),
                                                 .bytes_per_second = one->gbps * 1e9 / 8});
        for (uint32_t round = 0; round < s->rounds; round++) {
            uint32_t name = i * s->rounds + round;
            sl_time sample = (one->train ? train : ping)(t, rank, one, name, buffer);
            if (rank == one->train)
                s->sample[name] = sample;
        }
    }
    free(buffer);
    sl_transport_close(t);
    _exit(0);
}

static int by_size(const void *a, const void *b) {
    sl_time x = *(const sl_time *)a, y = *(const sl_time *)b;
    return (x > y) - (x < y);
}

static void print_setting(const setting *one, sl_time *sample, uint32_t rounds) {
    double transfer = one->gbps > 0 ? (double)one->bytes * 8 / (one->gbps * 1e6) : 0;
    double expected = one->train ? transfer : one->latency_ms + transfer;
    qsort(sample, rounds, sizeof *sample, by_size);
    printf("%s %g %g %zu %.6f", one->train ? "train" : "ping", one->latency_ms, one->gbps, one->bytes,
           expected);
    for (int i = 0; i < 4; i++)
        printf(" %.6f", sl_to_ms(sample[(uint64_t)rounds * (uint64_t[]){10, 50, 90, 99}[i] / 100]));
    printf("\n");
}

int main(int argc, char **argv) {
    const path *way = NULL;
    for (int i = 0; i < PATHS && argc > 1; i++)
        if (strcmp(argv[1], paths[i].name) == 0)
            way = &paths[i];
    long rounds = argc > 2 ? atol(argv[2]) : 60;
    if (!way || argc > 3 || rounds < 1 || rounds > 100000) {
        fprintf(stderr, "usage: bench_emulation shared|tcp|shared-delegated|tcp-delegated [ROUNDS]\n");
        return 2;
    }
    snprintf(directory, sizeof directory, "/dev/shm/slackline-bench.XXXXXX");
    size_t size = sizeof(shared) + SETTINGS * (size_t)rounds * sizeof(sl_time);
    shared *s = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!mkdtemp(directory) || s == MAP_FAILED) {
        perror("bench_emulation");
        return 1;
    }
    s->rounds = (uint32_t)rounds;
    pid_t child[2];
    int failed = 0;
    for (int rank = 0; rank < 2; rank++)
        if ((child[rank] = fork()) == 0)
            run_rank(s, rank, way);
    for (int rank = 0; rank < 2; rank++) {
        int status;
        failed |= waitpid(child[rank], &status, 0) != child[rank] || status != 0;
    }
    for (uint32_t i = 0; i < SETTINGS && !failed; i++)
        print_setting(&settings[i], s->sample + i * s->rounds, s->rounds);
    sl_path_remove(directory);
    munmap(s, size);
    return failed;
}
