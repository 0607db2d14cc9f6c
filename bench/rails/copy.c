/* Two ways of moving messages from one host to another over one or several interfaces, measured alike.
 *
 *   bench_copy tcp|endpoint receive|send PORT BYTES COUNT ADDRESS...       (ADDRESS: of the receiver, one a
 * rail)
 *
 * tcp: a plain copy, a connection and a thread a rail, messages in turn, from one buffer into one buffer.
 * endpoint: the project's own, from a queue into a queue, over all rails.
 *
 * The receiver prints the seconds from the arrival of the first message to that of the last and the bytes
 * that came in between; with SL_LOG set, behind that a line a message: its time of arrival (CLOCK_MONOTONIC,
 * ns). */
#include "base/clock.h"
#include "base/memory.h"
#include "run/rail/endpoint.h"
#include <sys/eventfd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Messages on their way: as many bytes as the kernel lets a plain connection have. */
#define BYTES_UNDER_WAY 8000000
#define SLOTS_MIN 16

typedef struct job {
    uint16_t port;
    size_t bytes;
    long count;
    int rails, proves;
    char **address;
    sl_time *arrived; /* [count] */
} job;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void report(const job *j) {
    sl_time first = SL_TIME_NEVER, last = 0;
    for (long i = 0; i < j->count; i++) {
        first = j->arrived[i] < first ? j->arrived[i] : first;
        last = j->arrived[i] > last ? j->arrived[i] : last;
    }
    printf("%.6f %zu\n", (double)(last - first) / 1e9, (size_t)(j->count - 1) * j->bytes);
    for (long i = 0; i < j->count && getenv("SL_LOG"); i++)
        printf("%lld\n", (long long)j->arrived[i]);
}

/* ---- plain TCP ---- */

typedef struct rail {
    const job *job;
    int number, listening;
    pthread_t thread;
} rail;

static struct sockaddr_in where(const rail *r) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(r->job->port + r->number))};
    if (inet_pton(AF_INET, r->job->address[r->number], &a.sin_addr) != 1)
        fail(r->job->address[r->number]);
    return a;
}

static void *tcp_receive(void *object) {
    rail *r = object;
    int from = accept(r->listening, NULL, NULL);
    char *buffer = malloc(r->job->bytes);
    if (from < 0 || !buffer)
        fail("accept");
    for (long i = r->number; i < r->job->count; i += r->job->rails) {
        for (size_t have = 0; have < r->job->bytes;) {
            ssize_t got = recv(from, buffer + have, r->job->bytes - have, 0);
            if (got <= 0)
                fail("recv");
            have += (size_t)got;
        }
        r->job->arrived[i] = sl_clock_now(sl_clock_real());
    }
    free(buffer);
    close(from);
    return NULL;
}

static void *tcp_send(void *object) {
    rail *r = object;
    struct sockaddr_in a = where(r);
    int to = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    char *buffer = calloc(1, r->job->bytes);
    if (to < 0 || !buffer || connect(to, (struct sockaddr *)&a, sizeof a) != 0)
        fail("connect");
    setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (long i = r->number; i < r->job->count; i += r->job->rails)
        for (size_t sent = 0; sent < r->job->bytes;) {
            ssize_t gone = send(to, buffer + sent, r->job->bytes - sent, MSG_NOSIGNAL);
            if (gone <= 0)
                fail("send");
            sent += (size_t)gone;
        }
    shutdown(to, SHUT_WR);
    if (recv(to, buffer, 1, 0) < 0) /* until the receiver has everything */
        fail("recv");
    close(to);
    free(buffer);
    return NULL;
}

static void tcp(const job *j, int receives) {
    rail rails[8];
    for (int i = 0; i < j->rails; i++) {
        rails[i] = (rail){.job = j, .number = i};
        if (!receives)
            continue;
        struct sockaddr_in a = where(&rails[i]);
        int on = 1;
        rails[i].listening = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(rails[i].listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(rails[i].listening, (struct sockaddr *)&a, sizeof a) != 0 ||
            listen(rails[i].listening, 1) != 0)
            fail("listen");
    }
    if (receives) {
        fprintf(stderr, "ready\n");
    }
    for (int i = 0; i < j->rails; i++)
        if (pthread_create(&rails[i].thread, NULL, receives ? tcp_receive : tcp_send, &rails[i]) != 0)
            fail("pthread_create");
    for (int i = 0; i < j->rails; i++)
        pthread_join(rails[i].thread, NULL);
}

/* ---- endpoints ---- */

typedef struct side {
    const job *job;
    int sends, doorbell;
    sl_queue_view queue;
    sl_loop *loop;
    sl_endpoint *endpoint;
    _Atomic int finished;
} side;

static void must(sl_status status) {
    if (status == SL_OK)
        return;
    fprintf(stderr, "bench_copy: %s\n", sl_error_text());
    exit(1);
}

static void ring(const side *s) {
    uint64_t one = 1;
    if (write(s->doorbell, &one, sizeof one) < 0)
        fail("doorbell");
}

static sl_status on_doorbell(void *object, int file) {
    side *s = object;
    uint64_t rung;
    if (read(file, &rung, sizeof rung) < 0)
        return SL_OK;
    if (atomic_load(&s->finished))
        sl_loop_stop(s->loop);
    return sl_endpoint_look(s->endpoint);
}

static void check_lost(const side *s) {
    if (!atomic_load(&s->queue.queue->lost))
        return;
    fprintf(stderr, "bench_copy: %s\n", s->queue.queue->reason);
    exit(1);
}

static void produce(side *s) {
    sl_queue *q = s->queue.queue;
    for (long i = 0; i < s->job->count; i++) {
        for (;;) {
            uint32_t bell = atomic_load(&q->done_bell);
            check_lost(s);
            if (sl_queue_has_room(&s->queue))
                break;
            sl_clock_wait(sl_clock_real(), &q->done_bell, bell, SL_TIME_NEVER);
        }
        sl_slot_header *place = sl_queue_slot(&s->queue, (uint64_t)i);
        *place = (sl_slot_header){.index = (uint32_t)i, .bytes = s->job->bytes};
        sl_queue_put(&s->queue);
        ring(s);
    }
    for (;;) {
        uint32_t bell = atomic_load(&q->done_bell);
        check_lost(s);
        if (atomic_load(&q->done) == (uint64_t)s->job->count)
            return;
        sl_clock_wait(sl_clock_real(), &q->done_bell, bell, SL_TIME_NEVER);
    }
}

static void consume(side *s) {
    sl_queue *q = s->queue.queue;
    for (long i = 0; i < s->job->count; i++) {
        for (;;) {
            uint32_t bell = atomic_load(&q->put_bell);
            check_lost(s);
            if (atomic_load(&q->put) > (uint64_t)i)
                break;
            sl_clock_wait(sl_clock_real(), &q->put_bell, bell, SL_TIME_NEVER);
        }
        s->job->arrived[i] = sl_clock_now(sl_clock_real());
        sl_queue_done(&s->queue);
        ring(s);
    }
    /* the last acknowledgement must leave before we do */
    sl_clock_sleep_until(sl_clock_real(), sl_clock_now(sl_clock_real()) + 300 * SL_MS);
}

static void *compute_side(void *object) {
    side *s = object;
    if (s->sends)
        produce(s);
    else
        consume(s);
    atomic_store(&s->finished, 1);
    ring(s);
    return NULL;
}

static void tell(void *object, sl_endpoint_event happened, int number, const char *text) {
    (void)object;
    if (getenv("SL_LOG"))
        fprintf(stderr, "%lld news %d rail %d %s\n", (long long)sl_clock_now(sl_clock_real()), (int)happened,
                number, text ? text : "");
}

static void endpoint(const job *j, int receives) {
    side s = {.job = j, .sends = !receives, .doorbell = eventfd(0, EFD_CLOEXEC)};
    size_t size;
    pthread_t thread;
    uint32_t slots = (uint32_t)(BYTES_UNDER_WAY / j->bytes);
    slots = slots < SLOTS_MIN ? SLOTS_MIN : slots;
    must(sl_queue_size(slots, j->bytes, &size));
    void *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    if (!memory)
        fail("memory");
    memset(memory, 0, size);
    sl_queue_format(memory, slots, j->bytes);
    must(sl_queue_open(memory, size, &s.queue));
    must(sl_loop_open(&s.loop));
    sl_endpoint_config config = {.sends = s.sends,
                                 .from = 0,
                                 .to = 1,
                                 .key = {7},
                                 .queue = &s.queue,
                                 .rails = j->rails,
                                 .proves = j->proves,
                                 .report = tell};
    for (int i = 0; i < j->rails; i++) {
        config.rail[i] = (sl_rail_address){.kind = SL_RAIL_TCP, .port = (uint16_t)(j->port + i)};
        snprintf(config.rail[i].address, sizeof config.rail[i].address, "%s", j->address[i]);
        config.listening[i] = -1;
        if (receives)
            must(sl_rail_listen(&config.rail[i], &config.listening[i]));
    }
    must(sl_endpoint_open(s.loop, &config, &s.endpoint));
    must(sl_loop_watch(s.loop, s.doorbell, on_doorbell, &s));
    if (receives)
        fprintf(stderr, "ready\n");
    if (pthread_create(&thread, NULL, compute_side, &s) != 0)
        fail("pthread_create");
    must(sl_loop_run(s.loop));
    pthread_join(thread, NULL);
    sl_endpoint_close(s.endpoint);
    sl_loop_close(s.loop);
    free(memory);
}

int main(int argc, char **argv) {
    int proves = argc > 2 && strcmp(argv[1], "proven") == 0;
    int endpoints = proves || (argc > 2 && strcmp(argv[1], "endpoint") == 0);
    int receives = argc > 2 && strcmp(argv[2], "receive") == 0;
    if (argc < 7 || argc > 14 || (!endpoints && strcmp(argv[1], "tcp") != 0) ||
        (!receives && strcmp(argv[2], "send") != 0)) {
        fprintf(stderr, "usage: bench_copy tcp|endpoint|proven receive|send PORT BYTES COUNT ADDRESS...\n");
        return 2;
    }
    job j = {.port = (uint16_t)atoi(argv[3]),
             .bytes = (size_t)atol(argv[4]),
             .count = atol(argv[5]),
             .rails = argc - 6,
             .proves = proves,
             .address = argv + 6};
    if (j.bytes < 1 || j.count < 2 || !(j.arrived = calloc((size_t)j.count, sizeof *j.arrived)))
        return 2;
    (endpoints ? endpoint : tcp)(&j, receives);
    if (receives)
        report(&j);
    free(j.arrived);
    return 0;
}
