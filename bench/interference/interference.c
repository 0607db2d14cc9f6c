/* How much longer the model's ops take while messages are sent: a stage of the real model computes on one
 * core, which its rank has to itself, and hands over messages of 1 MB at a given rate to a rank of another
 * host (TCP over the loopback interface). Who carries them:
 *
 *   nobody      nothing is sent
 *   own         the rank's own network thread, on the rank's core
 *   delegate    a delegate process on the other cores
 *
 *   bench_interference nobody|own|delegate MB_PER_S SECONDS
 *
 * Prints: ops; op time mean, p10, p50, p90 in ms; ms of the rank per op with handing over and all; ms a
 * message that handing it over took the rank; MB/s that went through; ms from handing over to arrival (p50).
 * An op is one F, I and W of a microbatch of a stage of two layers, width 256, 128 tokens; it is not paced.
 */
#include "base/clock.h"
#include "base/file.h"
#include "delegated.h"
#include "run/model/transformer.h"
#include "run/transport/transport.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGE 1000000
#define SLOTS 16
#define PATIENCE (20 * SL_SECOND)

typedef struct shared {
    sl_transport_address address[2];
    _Atomic uint32_t listening, stop, last; /* stop: message number `last` is the last, once it is 1 */
    bench_meeting meeting;
} shared;

typedef struct rank0 {
    sl_transport *transport;
    sl_model_stage *stage;
    float *input, *output;
    char *message;
    uint32_t sent, settled;
    sl_time handing;     /* time spent handing over */
    sl_time *op, *delay; /* samples */
    long ops, op_capacity;
} rank0;

static const sl_model_config shape = {
    .layers = 4, .width = 256, .heads = 4, .context = 128, .vocabulary = 256, .batch = 1};
static char directory[64];

static void must(sl_status status) {
    if (status == SL_OK)
        return;
    fprintf(stderr, "bench_interference: %s\n", sl_error_text());
    _exit(1);
}

static sl_time now(void) {
    return sl_clock_now(sl_clock_real());
}

/* The first core, or all others; threads and processes started from here on inherit it. */
static void stay_on(int first) {
    cpu_set_t set;
    CPU_ZERO(&set);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    for (int i = first ? 0 : 1; i < (first ? 1 : (int)cores); i++)
        CPU_SET((size_t)i, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        perror("bench_interference: affinity");
        _exit(1);
    }
}

static sl_transport *open_rank(shared *s, int rank, int delegated) {
    sl_transport *t;
    int socket = -1;
    must(sl_transport_listen("127.0.0.1", &s->address[rank], &socket));
    snprintf(s->address[rank].host, sizeof s->address[rank].host, "host%d", rank);
    atomic_fetch_add(&s->listening, 1);
    sl_clock_wake(sl_clock_real(), &s->listening);
    sl_time until = now() + PATIENCE;
    while (atomic_load(&s->listening) < 2 && now() < until)
        sl_clock_wait(sl_clock_real(), &s->listening, 1, until);
    sl_transport_config config = {.rank = rank,
                                  .ranks = 2,
                                  .clock = sl_clock_real(),
                                  .directory = directory,
                                  .addresses = s->address,
                                  .key = {1},
                                  .message_bytes = MESSAGE,
                                  .slots = SLOTS};
    static const char *const rail[] = {"127.0.0.1"};
    sl_transport_starter starter = sl_launch_delegate_starter(bench_delegates(directory));
    config.starter = &starter;
    config.rails = rail;
    config.rail_count = 1;
    must(sl_transport_open(&config, socket, PATIENCE, &t));
    if (delegated)
        must(bench_use_delegates(t, rank, 1, &s->meeting));
    return t;
}

/* ---- rank 1: takes what comes ---- */

static void sink(shared *s, int delegated) {
    stay_on(0);
    sl_transport *t = open_rank(s, 1, delegated);
    char *buffer = malloc((size_t)SLOTS * MESSAGE);
    uint32_t posted = 0, taken = 0;
    if (!buffer)
        _exit(1);
    while (!atomic_load(&s->stop) || taken < atomic_load(&s->last)) {
        while (posted < taken + SLOTS) {
            must(sl_transport_receive(t, 0, 0, posted, buffer + posted % SLOTS * (size_t)MESSAGE, MESSAGE));
            posted++;
        }
        /* a short deadline: the end is said in memory, not by a message */
        sl_status status = sl_transport_wait(t, 0, 0, taken, now() + 100 * SL_MS, NULL);
        if (status == SL_OK)
            taken++;
        else if (status != SL_EPEER || !atomic_load(&s->stop))
            continue;
    }
    sl_transport_close(t);
    free(buffer);
    _exit(0);
}

/* ---- rank 0: computes, and hands over in between ---- */

static void settle(rank0 *r, uint32_t until) {
    while (r->settled < until) {
        sl_sent sent;
        must(sl_transport_wait_sent(r->transport, 1, 0, r->settled, now() + PATIENCE, &sent));
        r->delay[r->settled++] = sent.arrive - sent.start;
    }
}

/* Messages that the rate owes since `begin`; at most SLOTS are under way, so a path that is too slow holds
 * the rank here, and not in an op. */
static void hand_over(rank0 *r, double per_ns, sl_time begin, uint32_t most) {
    sl_time start = now();
    while ((double)r->sent < per_ns * (double)(start - begin) && r->sent < most) {
        if (r->sent - r->settled == SLOTS)
            settle(r, r->settled + 1);
        must(sl_transport_send(r->transport, 1, 0, r->sent++, r->message, MESSAGE, now()));
    }
    r->handing += now() - start;
}

static void one_op(rank0 *r, int microbatch) {
    sl_time start = now();
    const sl_op_part whole = {.index = 0, .count = 1};
    must(sl_model_forward_part(r->stage, microbatch, whole, NULL, NULL, r->input, r->output));
    must(sl_model_input_grad_part(r->stage, microbatch, whole, r->output, r->input));
    must(sl_model_weight_grad_part(r->stage, microbatch, whole));
    if (r->ops < r->op_capacity)
        r->op[r->ops++] = now() - start;
}

static int by_size(const void *a, const void *b) {
    sl_time x = *(const sl_time *)a, y = *(const sl_time *)b;
    return (x > y) - (x < y);
}

static double percentile(sl_time *sample, long n, int percent) {
    if (n == 0)
        return 0;
    qsort(sample, (size_t)n, sizeof *sample, by_size);
    return sl_to_ms(sample[n * percent / 100]);
}

static void open_model(rank0 *r, sl_device **device, sl_arena **arena) {
    sl_model_bytes bytes;
    must(sl_device_open_cpu(1, device));
    must(sl_model_measure(&shape, *device, 1, 3,
                          &bytes)); /* the middle of three: neither embedding nor head */
    must(sl_arena_open(*device, bytes.fixed + bytes.forward + bytes.backward, arena));
    must(sl_model_stage_open(&shape, *device, *arena, 1, 3, 1, &r->stage));
    r->input = calloc(2, bytes.message);
    r->message = calloc(1, MESSAGE);
    if (!r->input || !r->message)
        _exit(1);
    r->output = r->input + bytes.message / sizeof(float);
}

static void compute(shared *s, int carried, int delegated, double mb_per_s, double seconds) {
    rank0 r = {.op_capacity = 1000000};
    sl_device *device;
    sl_arena *arena;
    uint32_t most = (uint32_t)(mb_per_s * seconds * 1e6 / MESSAGE) + 1;
    stay_on(!delegated); /* the transport's threads and processes stay where they are started */
    r.transport = open_rank(s, 0, delegated);
    stay_on(1);
    open_model(&r, &device, &arena);
    r.op = calloc((size_t)r.op_capacity, sizeof *r.op);
    r.delay = calloc(most + 1, sizeof *r.delay);
    if (!r.op || !r.delay)
        _exit(1);
    enum { BATCH = 64 };
    must(sl_model_begin(r.stage, BATCH));
    for (int m = 0; m < BATCH; m++) /* warm */
        one_op(&r, m);
    r.ops = 0;
    sl_time begin = now(), end = begin + (sl_time)(seconds * 1e9);
    while (now() < end) {
        must(sl_model_begin(r.stage, BATCH));
        for (int m = 0; m < BATCH && now() < end; m++) {
            if (carried)
                hand_over(&r, mb_per_s * 1e6 / MESSAGE / 1e9, begin, most);
            one_op(&r, m);
        }
    }
    double took = (double)(now() - begin) / 1e9;
    atomic_store(&s->last, r.sent);
    atomic_store(&s->stop, 1);
    settle(&r, r.sent);
    double total = 0;
    for (long i = 0; i < r.ops; i++)
        total += sl_to_ms(r.op[i]);
    printf("%ld %.4f %.4f %.4f %.4f %.4f %.4f %.1f %.4f\n", r.ops, total / (double)r.ops,
           percentile(r.op, r.ops, 10), percentile(r.op, r.ops, 50), percentile(r.op, r.ops, 90),
           1e3 * took / (double)r.ops, r.sent ? sl_to_ms(r.handing) / r.sent : 0,
           r.sent * (double)MESSAGE / 1e6 / took, percentile(r.delay, r.settled, 50));
    fflush(stdout);
    sl_transport_close(r.transport);
    sl_model_stage_close(r.stage);
    sl_arena_close(arena);
    device->close(device);
    free(r.input);
    free(r.message);
    free(r.op);
    free(r.delay);
    _exit(0);
}

int main(int argc, char **argv) {
    static const char *const who[] = {"nobody", "own", "delegate"};
    int carrier = -1, failed = 0;
    for (int i = 0; i < 3 && argc == 4; i++)
        if (strcmp(argv[1], who[i]) == 0)
            carrier = i;
    double rate = argc == 4 ? atof(argv[2]) : 0, seconds = argc == 4 ? atof(argv[3]) : 0;
    if (carrier < 0 || rate < 0 || seconds <= 0 || seconds > 3600) {
        fprintf(stderr, "usage: bench_interference nobody|own|delegate MB_PER_S SECONDS\n");
        return 2;
    }
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
        fprintf(stderr, "bench_interference: one core alone cannot show who disturbs whom\n");
        return 77;
    }
    snprintf(directory, sizeof directory, "/dev/shm/slackline-bench.XXXXXX");
    shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!mkdtemp(directory) || s == MAP_FAILED) {
        perror("bench_interference");
        return 1;
    }
    pid_t child[2];
    if ((child[1] = fork()) == 0)
        sink(s, carrier == 2);
    if ((child[0] = fork()) == 0)
        compute(s, carrier > 0, carrier == 2, rate, seconds);
    for (int i = 0; i < 2; i++) {
        int status;
        failed |= waitpid(child[i], &status, 0) != child[i] || status != 0;
    }
    sl_path_remove(directory);
    return failed;
}
