/* A sending and a receiving endpoint with their queues on one loop, a producer and a consumer that step once
 * a millisecond, and news that are kept. What the consumer takes is checked byte by byte and in order. */
#ifndef SL_TESTS_TRANSPORT_CONVEYANCE_H
#define SL_TESTS_TRANSPORT_CONVEYANCE_H

#include "run/message.h"

#include "base/loop.h"
#include "base/memory.h"
#include "run/rail/endpoint.h"

typedef struct happened {
    int count[5];
    char last[5][256];
    int rail_ups[SL_RAILS_MAX];
} happened;

typedef struct conveyance {
    sl_loop *loop;
    sl_queue *memory[2];   /* [0] the sender's, [1] the receiver's */
    sl_queue_view view[2]; /* the endpoints' */
    sl_endpoint_config config[2];
    sl_endpoint *endpoint[2];
    happened heard[2];
    uint64_t seed, count, made, taken;
    size_t largest;
    sl_time due_in; /* messages are due so long after they were put; 0: no emulation */
    sl_time deadline;
    int hold;                               /* it is not over yet, whatever has been taken */
    int finish_early;                       /* stop as soon as everything was taken, acknowledged or not */
    int paused;                             /* the consumer takes nothing */
    sl_status (*step)(struct conveyance *); /* of the test, once a millisecond; may be NULL */
    void *object;
    char directory[64];
} conveyance;

static inline void hear_news(void *object, sl_endpoint_event what, int rail, const char *text) {
    happened *n = object;
    n->count[what]++;
    snprintf(n->last[what], sizeof n->last[what], "%s", text);
    if (what == SL_HAPPENED_RAIL_UP)
        n->rail_ups[rail]++;
    if (getenv("SL_TALK"))
        fprintf(stderr, "%.3f %d rail %d: %s\n", (double)sl_clock_now(sl_clock_real()) / 1e9, (int)what, rail,
                text);
}

static inline size_t size_of_message(const conveyance *v, uint64_t number) {
    uint64_t state = v->seed ^ (number * 77);
    uint64_t kind = random_next(&state);
    if (v->largest == 0 || kind % 8 == 0)
        return 0;
    return kind % 8 < 4 ? random_next(&state) % (v->largest < 1000 ? v->largest : 1000)
                        : random_next(&state) % (v->largest + 1);
}

static inline void open_queue(conveyance *v, int end, uint32_t slots, size_t largest) {
    size_t bytes;
    assert_ok(sl_queue_size(slots, largest, &bytes));
    v->memory[end] = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(v->memory[end]);
    memset(v->memory[end], 0, sizeof(sl_queue) + 64);
    sl_queue_format(v->memory[end], slots, largest);
    assert_ok(sl_queue_open(v->memory[end], bytes, &v->view[end]));
}

static inline void begin(conveyance *v, uint64_t count, uint32_t slots, size_t largest) {
    *v = (conveyance){.seed = seed_of_the_run(), .count = count, .largest = largest};
    v->deadline = sl_clock_now(sl_clock_real()) + 120 * SL_SECOND;
    assert_ok(sl_loop_open(&v->loop));
    for (int end = 0; end < 2; end++) {
        open_queue(v, end, slots, largest);
        v->config[end] = (sl_endpoint_config){.sends = end == 0,
                                              .from = 3,
                                              .to = 5,
                                              .number = 1,
                                              .key = {1, 2, 3},
                                              .queue = &v->view[end],
                                              .report = hear_news,
                                              .object = &v->heard[end]};
    }
    snprintf(v->directory, sizeof v->directory, "/tmp/slackline-endpoint-XXXXXX");
    assert_non_null(mkdtemp(v->directory));
}

/* One more rail, listening. `address`: numeric, or NULL for a unix socket. */
static inline void add_rail(conveyance *v, const char *address) {
    int r = v->config[0].rails++;
    sl_rail_address *at = &v->config[1].rail[r];
    v->config[1].rails++;
    if (address)
        snprintf(at->address, sizeof at->address, "%s", address);
    else {
        at->kind = SL_RAIL_UNIX;
        snprintf(at->address, sizeof at->address, "%s/rail%d", v->directory, r);
    }
    assert_ok(sl_rail_listen(at, &v->config[1].listening[r]));
    v->config[0].rail[r] = *at;
}

static inline void open_endpoint(conveyance *v, int end) {
    assert_ok(sl_endpoint_open(v->loop, &v->config[end], &v->endpoint[end]));
}

static inline void reopen_endpoint(conveyance *v, int end) {
    sl_endpoint_close(v->endpoint[end]);
    open_endpoint(v, end);
}

static inline void produce(conveyance *v) {
    while (v->made < v->count && sl_queue_has_room(&v->view[0])) {
        sl_slot_header *place = sl_queue_slot(&v->view[0], v->made);
        place->iteration = (uint32_t)(v->made / 100);
        place->index = (uint32_t)(v->made % 100);
        place->bytes = size_of_message(v, v->made);
        place->arrived = 0;
        place->due = v->due_in ? sl_clock_now(sl_clock_real()) + v->due_in : 0;
        fill(sl_queue_payload(&v->view[0], v->made), place->bytes, 3, 5, place->iteration, place->index);
        sl_queue_put(&v->view[0]);
        v->made++;
    }
    if (v->endpoint[0])
        assert_ok(sl_endpoint_look(v->endpoint[0]));
}

static inline void consume(conveyance *v) {
    while (!v->paused && v->taken < atomic_load(&v->memory[1]->put)) {
        const sl_slot_header *place = sl_queue_slot(&v->view[1], v->taken);
        assert_int_equal(place->iteration, v->taken / 100);
        assert_int_equal(place->index, v->taken % 100);
        assert_int_equal(place->bytes, size_of_message(v, v->taken));
        assert_true(is_filled(sl_queue_payload(&v->view[1], v->taken), place->bytes, 3, 5, place->iteration,
                              place->index));
        sl_queue_done(&v->view[1]);
        v->taken++;
    }
    if (v->endpoint[1])
        assert_ok(sl_endpoint_look(v->endpoint[1]));
}

static inline int is_over(const conveyance *v) {
    if (sl_clock_now(sl_clock_real()) > v->deadline)
        return 1;
    return !v->hold && v->taken == v->count &&
           (v->finish_early || atomic_load(&v->memory[0]->done) == v->count);
}

static inline sl_status tick(void *context) {
    conveyance *v = context;
    if (v->step)
        SL_TRY(v->step(v));
    produce(v);
    consume(v);
    if (is_over(v))
        sl_loop_stop(v->loop);
    return sl_loop_at(v->loop, sl_clock_now(sl_clock_real()) + SL_MS, tick, v, NULL);
}

/* Until all has been carried. */
static inline void carry(conveyance *v) {
    sl_loop_timer timer;
    assert_ok(sl_loop_at(v->loop, 0, tick, v, &timer));
    assert_ok(sl_loop_run(v->loop));
    if (v->taken != v->count)
        printf("taken %llu of %llu, put %llu, done %llu; last: %s | %s\n", (unsigned long long)v->taken,
               (unsigned long long)v->count, (unsigned long long)atomic_load(&v->memory[0]->put),
               (unsigned long long)atomic_load(&v->memory[0]->done), v->heard[0].last[SL_HAPPENED_RAIL_DOWN],
               v->heard[1].last[SL_HAPPENED_RAIL_DOWN]);
}

static inline void must_have_carried_all(const conveyance *v) {
    assert_int_equal(v->taken, v->count);
    assert_int_equal(atomic_load(&v->memory[1]->put), v->count);
    if (!v->finish_early)
        assert_int_equal(atomic_load(&v->memory[0]->done), v->count);
}

static inline void finish(conveyance *v) {
    for (int end = 0; end < 2; end++) {
        sl_endpoint_close(v->endpoint[end]);
        free(v->memory[end]);
    }
    for (int r = 0; r < v->config[1].rails; r++) {
        close(v->config[1].listening[r]);
        if (v->config[1].rail[r].kind == SL_RAIL_UNIX)
            unlink(v->config[1].rail[r].address);
    }
    sl_loop_close(v->loop);
    rmdir(v->directory);
}

#endif
