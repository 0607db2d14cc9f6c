/* How late an emulated link is: arrival error (published - due) between two processes over shared memory,
 * while other processes keep the cores busy, for each scheduling class of the communication thread.
 *
 *   bench_latency [MESSAGES [BYTES]]        default: 400 messages of 50000 bytes, one each 5 ms, latency 3 ms
 *
 * "noticed" is when the receiver's compute side returned from its wait, minus due: it holds the copy into the
 * posted buffer and the wait for a core of an ordinary process, which no class of ours can shorten. */
#include "base/clock.h"
#include "base/file.h"
#include "run/transport/transport.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define INTERVAL (5 * SL_MS)
#define LATENCY (3 * SL_MS)
#define MAX_BUSY 4

static const struct {
    sl_transport_class class;
    const char *name;
} classes[] = {{SL_CLASS_FIFO, "fifo"}, {SL_CLASS_SLICE, "slice"}, {SL_CLASS_NORMAL, "normal"}};

typedef struct sample {
    sl_time due, arrive, noticed;
} sample;

static char directory[64];

static void must(sl_status status) {
    if (status == SL_OK)
        return;
    fprintf(stderr, "bench_latency: %s\n", sl_error_text());
    _exit(1);
}

static sl_transport *open_rank(int rank, size_t bytes, sl_transport_class class) {
    sl_transport *t;
    sl_transport_config config = {.rank = rank,
                                  .ranks = 2,
                                  .clock = sl_clock_real(),
                                  .directory = directory,
                                  .message_bytes = bytes,
                                  .slots = 4,
                                  .scheduling = class};
    must(sl_transport_open(&config, -1, 10 * SL_SECOND, &t));
    return t;
}

static void receive_all(sample *samples, uint32_t messages, size_t bytes, sl_transport_class class) {
    sl_transport *t = open_rank(1, bytes, class);
    void *buffer = malloc(bytes);
    for (uint32_t i = 0; i < messages; i++) {
        must(sl_transport_receive(t, 0, i, 0, buffer, bytes));
        must(sl_transport_wait(t, 0, i, 0, SL_TIME_NEVER, NULL));
        samples[i].noticed = sl_clock_now(sl_clock_real());
    }
    free(buffer);
    sl_transport_close(t);
    _exit(0);
}

static void send_all(sample *samples, uint32_t messages, size_t bytes, sl_transport_class class,
                     char got[32]) {
    sl_transport *t = open_rank(0, bytes, class);
    void *buffer = calloc(1, bytes);
    snprintf(got, 32, "%s", sl_transport_scheduling(t));
    sl_transport_emulate(t, 1, (sl_link_emulation){.latency = LATENCY});
    sl_time ready = sl_clock_now(sl_clock_real());
    for (uint32_t i = 0; i < messages; i++) {
        sl_sent sent;
        ready += INTERVAL;
        must(sl_transport_send(t, 1, i, 0, buffer, bytes, ready));
        must(sl_transport_wait_sent(t, 1, i, 0, SL_TIME_NEVER, &sent));
        samples[i].due = sent.due;
        samples[i].arrive = sent.arrive;
    }
    free(buffer);
    sl_transport_close(t);
}

static int by_size(const void *a, const void *b) {
    sl_time x = *(const sl_time *)a, y = *(const sl_time *)b;
    return (x > y) - (x < y);
}

static void print_percentiles(sl_time *error, uint32_t n) {
    qsort(error, n, sizeof *error, by_size);
    printf(" %9.1f %9.1f %9.1f %9.1f", (double)error[n / 2] / 1e3, (double)error[(uint64_t)n * 9 / 10] / 1e3,
           (double)error[(uint64_t)n * 99 / 100] / 1e3, (double)error[n - 1] / 1e3);
}

static void busy_for_ever(void) {
    for (volatile unsigned n = 0;; n++) {
    }
}

static void measure(size_t class, int busy, uint32_t messages, size_t bytes, sample *samples,
                    sl_time *error) {
    pid_t load[MAX_BUSY];
    char got[32];
    for (int i = 0; i < busy; i++)
        if ((load[i] = fork()) == 0)
            busy_for_ever();
    pid_t receiver = fork();
    if (receiver == 0)
        receive_all(samples, messages, bytes, classes[class].class);
    send_all(samples, messages, bytes, classes[class].class, got);
    waitpid(receiver, NULL, 0);
    for (int i = 0; i < busy; i++) {
        kill(load[i], SIGKILL);
        waitpid(load[i], NULL, 0);
    }
    printf("%4d  %-7s %-14s", busy, classes[class].name, got);
    for (uint32_t i = 0; i < messages; i++)
        error[i] = samples[i].arrive - samples[i].due;
    print_percentiles(error, messages);
    printf("  |");
    for (uint32_t i = 0; i < messages; i++)
        error[i] = samples[i].noticed - samples[i].due;
    print_percentiles(error, messages);
    printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv) {
    long messages = argc > 1 ? atol(argv[1]) : 400, bytes = argc > 2 ? atol(argv[2]) : 50000;
    if (messages < 1 || messages > 1000000 || bytes < 1 || argc > 3) {
        fprintf(stderr, "usage: bench_latency [MESSAGES [BYTES]]\n");
        return 2;
    }
    snprintf(directory, sizeof directory, "/dev/shm/slackline-bench.XXXXXX");
    if (!mkdtemp(directory)) {
        perror("/dev/shm");
        return 1;
    }
    size_t size = (size_t)messages * sizeof(sample);
    sample *samples = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sl_time *error = calloc((size_t)messages, sizeof *error);
    if (samples == MAP_FAILED || !error)
        return 1;
    printf("%ld messages of %ld bytes, one each 5 ms, emulated latency 3 ms, %ld cores; us\n", messages,
           bytes, sysconf(_SC_NPROCESSORS_ONLN));
    printf("                             arrival error                         |  noticed - due\n");
    printf("busy  asked   got                  p50       p90       p99       max  |      p50       p90       "
           "p99       max\n");
    for (int busy = 0; busy <= MAX_BUSY; busy += 2)
        for (size_t class = 0; class < sizeof classes / sizeof *classes; class ++)
            measure(class, busy, (uint32_t)messages, (size_t)bytes, samples, error);
    sl_path_remove(directory);
    free(error);
    munmap(samples, size);
    return 0;
}
