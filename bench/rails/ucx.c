/* Throughput of one rail over the loopback interface: two processes, each with one end of a conduit, 8 MiB
 * messages from queue to queue, over TCP and then over UCX (where built with it).
 *
 *   bench_ucx [MESSAGES]        default 256, which is 2 GiB */
#include "base/clock.h"
#include "run/rail/endpoint.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS 4
#define BYTES ((size_t)8 << 20)

typedef struct side {
    sl_loop *loop;
    sl_queue_view view;
    sl_endpoint *endpoint;
    uint64_t count, next;
    int sends;
} side;

static void must(sl_status status) {
    if (status == SL_OK)
        return;
    fprintf(stderr, "bench_ucx: %s\n", sl_error_text());
    exit(1);
}

static void produce(side *s) {
    for (; s->next < s->count && sl_queue_has_room(&s->view); s->next++) {
        sl_queue_slot(&s->view, s->next)->bytes = BYTES;
        sl_queue_put(&s->view);
    }
    if (atomic_load(&s->view.queue->done) == s->count)
        sl_loop_stop(s->loop);
}

static void consume(side *s) {
    for (; s->next < atomic_load(&s->view.queue->put); s->next++)
        sl_queue_done(&s->view);
}

static sl_status step(void *object) {
    side *s = object;
    s->sends ? produce(s) : consume(s);
    must(sl_endpoint_look(s->endpoint));
    return sl_loop_at(s->loop, sl_clock_now(sl_clock_real()) + SL_MS / 4, step, s, NULL);
}

static void run_side(int sends, sl_rail_address rail, int listening, uint64_t count) {
    size_t bytes;
    side s = {.sends = sends, .count = count};
    must(sl_queue_size(SLOTS, BYTES, &bytes));
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        exit(1);
    sl_queue_format(memory, SLOTS, BYTES);
    must(sl_queue_open(memory, bytes, &s.view));
    sl_endpoint_config config = {.sends = sends,
                                 .from = 0,
                                 .to = 1,
                                 .queue = &s.view,
                                 .rails = 1,
                                 .rail = {rail},
                                 .listening = {listening}};
    must(sl_loop_open(&s.loop));
    must(sl_endpoint_open(s.loop, &config, &s.endpoint));
    must(sl_loop_at(s.loop, 0, step, &s, NULL));
    must(sl_loop_run(s.loop));
    sl_endpoint_close(s.endpoint);
    sl_loop_close(s.loop);
    munmap(memory, bytes);
}

/* Each end in a process of its own. */
static pid_t start(int sends, const sl_rail_address *rail, int listening, uint64_t count) {
    pid_t made = fork();
    if (made == 0) {
        run_side(sends, *rail, listening, count);
        _exit(0);
    }
    return made;
}

static void measure(const char *name, sl_rail_kind kind, uint64_t count) {
    sl_rail_address rail = {.address = "127.0.0.1"};
    int listening, how;
    must(sl_rail_listen(&rail, &listening));
    rail.kind = kind;
    pid_t receiver = start(0, &rail, listening, count);
    sl_time begin = sl_clock_now(sl_clock_real());
    pid_t sender = start(1, &rail, -1, count);
    waitpid(sender, &how, 0);
    double seconds = (double)(sl_clock_now(sl_clock_real()) - begin) / 1e9;
    kill(receiver, SIGKILL);
    waitpid(receiver, NULL, 0);
    close(listening);
    if (how == 0)
        printf("%s: %.0f MB in %.2f s with connecting, %.2f GB/s\n", name, (double)(count * BYTES) / 1e6,
               seconds, (double)(count * BYTES) / 1e9 / seconds);
}

int main(int argc, char **argv) {
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 256;
    printf("%ld processors, 127.0.0.1\n", sysconf(_SC_NPROCESSORS_ONLN));
    fflush(stdout);
    measure("tcp", SL_RAIL_TCP, count);
    fflush(stdout);
    measure("ucx", SL_RAIL_UCX, count);
    return 0;
}
