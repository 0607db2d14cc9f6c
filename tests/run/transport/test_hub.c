/* Threads as ranks on the virtual clock: every arrival is exact, and equal to what a naive computation over
 * the list of all messages of a link says. */
#include "run/message.h"

#include "base/memory.h"
#include "run/transport/hub.h"
#include "run/transport/transport.h"
#include "virtual_clock.h"
#include <math.h>
#include <pthread.h>
#include <sched.h>

#define RANKS 4
#define MESSAGES 12 /* a directed pair and iteration */
#define ITERATIONS 5
#define LARGEST 3000

/* One message of the random plan; `arrive` is filled by both ends. */
typedef struct planned {
    size_t bytes;
    sl_time handed, ready;
    sl_time start, end, due;
    sl_sent sent;
    sl_time arrived;
} planned;

typedef struct cluster {
    sl_clock *clock;
    sl_transport_hub *hub;
    sl_link_emulation emulation[ITERATIONS][RANKS][RANKS];
    planned plan[ITERATIONS][RANKS][RANKS][MESSAGES]; /* [from][to], in order of handing over */
    uint32_t index[RANKS][RANKS][MESSAGES];           /* names, a permutation */
    uint32_t wanted[RANKS][RANKS][MESSAGES];          /* order in which the receiver waits */
    _Atomic int failures;
} cluster;

typedef struct player {
    cluster *c;
    sl_transport *transport;
    int rank;
    uint8_t *in, *out; /* [RANKS * MESSAGES][LARGEST] */
} player;

#define HOLDS(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            printf("rank %d: %s: %s\n", p->rank, #condition, sl_error_text());                               \
            atomic_fetch_add(&p->c->failures, 1);                                                            \
            return;                                                                                          \
        }                                                                                                    \
    } while (0)

static uint8_t *buffer(uint8_t *base, int peer, int i) {
    return base + (size_t)(peer * MESSAGES + i) * LARGEST;
}

static void play_iteration(player *p, uint32_t iteration) {
    cluster *c = p->c;
    for (int peer = 0; peer < RANKS; peer++) {
        if (peer == p->rank)
            continue;
        sl_transport_emulate(p->transport, peer, c->emulation[iteration][p->rank][peer]);
        for (int i = 0; i < MESSAGES; i++)
            HOLDS(sl_transport_receive(p->transport, peer, iteration, c->index[peer][p->rank][i],
                                       buffer(p->in, peer, i),
                                       c->plan[iteration][peer][p->rank][i].bytes) == SL_OK);
    }
    for (int i = 0; i < MESSAGES; i++)
        for (int peer = 0; peer < RANKS; peer++) {
            planned *m = &c->plan[iteration][p->rank][peer][i];
            if (peer == p->rank)
                continue;
            sl_clock_sleep_until(c->clock, m->handed);
            fill(buffer(p->out, peer, i), m->bytes, p->rank, peer, iteration, c->index[p->rank][peer][i]);
            HOLDS(sl_transport_send(p->transport, peer, iteration, c->index[p->rank][peer][i],
                                    buffer(p->out, peer, i), m->bytes, m->ready) == SL_OK);
        }
    for (int k = 0; k < MESSAGES; k++)
        for (int peer = 0; peer < RANKS; peer++) {
            if (peer == p->rank)
                continue;
            int i = (int)c->wanted[peer][p->rank][k];
            planned *m = &c->plan[iteration][peer][p->rank][i];
            uint32_t index = c->index[peer][p->rank][i];
            HOLDS(sl_transport_wait(p->transport, peer, iteration, index, SL_TIME_NEVER, &m->arrived) ==
                  SL_OK);
            HOLDS(sl_clock_now(c->clock) >= m->arrived);
            HOLDS(is_filled(buffer(p->in, peer, i), m->bytes, peer, p->rank, iteration, index));
        }
    for (int i = 0; i < MESSAGES; i++)
        for (int peer = 0; peer < RANKS; peer++)
            if (peer != p->rank)
                HOLDS(sl_transport_wait_sent(p->transport, peer, iteration, c->index[p->rank][peer][i],
                                             SL_TIME_NEVER,
                                             &c->plan[iteration][p->rank][peer][i].sent) == SL_OK);
}

static void *play(void *object) {
    player *p = object;
    for (uint32_t iteration = 0; iteration < ITERATIONS; iteration++)
        play_iteration(p, iteration);
    sl_clock_leave(p->c->clock);
    return NULL;
}

/* First come first served: go through all messages of the link once. */
static void expect(cluster *c, int from, int to) {
    sl_time free_at = 0, last_due = 0;
    for (int k = 0; k < ITERATIONS * MESSAGES; k++) {
        planned *m = &c->plan[k / MESSAGES][from][to][k % MESSAGES];
        sl_link_emulation e = c->emulation[k / MESSAGES][from][to];
        double transfer = e.bytes_per_second > 0 ? (double)m->bytes * 1e9 / e.bytes_per_second : 0;
        m->start = m->ready > free_at ? m->ready : free_at;
        m->end = m->start + (sl_time)floor(transfer + 0.5);
        m->due = m->end + e.latency > last_due ? m->end + e.latency : last_due;
        free_at = m->end;
        last_due = m->due;
    }
}

static void shuffle(uint64_t *seed, uint32_t *numbers) {
    for (uint32_t i = 0; i < MESSAGES; i++) {
        uint32_t j = (uint32_t)(random_next(seed) % (i + 1));
        numbers[i] = numbers[j];
        numbers[j] = i;
    }
}

/* Iterations are 1 s apart, so that each is over when the next begins and handing over happens at the planned
 * moments; within one, transfers overlap. Ready times of a link rise. */
static void make_plan(cluster *c, uint64_t *seed) {
    static const double rates[] = {0, 1e6, 3e6, 1e9}; /* bytes a second */
    for (int from = 0; from < RANKS; from++)
        for (int to = 0; to < RANKS; to++) {
            shuffle(seed, c->index[from][to]);
            shuffle(seed, c->wanted[from][to]);
        }
    for (int k = 0; k < ITERATIONS; k++)
        for (int from = 0; from < RANKS; from++) {
            sl_time handed = (k + 1) * SL_SECOND;
            for (int i = 0; i < MESSAGES; i++) {
                handed += (sl_time)(random_next(seed) % 3) * SL_MS;
                for (int to = 0; to < RANKS; to++) {
                    planned *m = &c->plan[k][from][to][i];
                    m->bytes = random_next(seed) % (LARGEST + 1);
                    m->handed = handed;
                    m->ready = handed + (sl_time)(1 + random_next(seed) % 6) * SL_MS;
                    if (i > 0 && m->ready < m[-1].ready)
                        m->ready = m[-1].ready;
                    c->emulation[k][from][to] =
                        (sl_link_emulation){.latency = (sl_time)(random_next(seed) % 30) * SL_MS,
                                            .bytes_per_second = rates[random_next(seed) % 4]};
                }
            }
        }
}

static void run_cluster(cluster *c) {
    pthread_t thread[RANKS];
    player players[RANKS];
    uint8_t *memory = calloc(2 * RANKS, (size_t)RANKS * MESSAGES * LARGEST);
    assert_non_null(memory);
    assert_ok(sl_clock_open_virtual(RANKS, &c->clock));
    assert_ok(sl_transport_hub_open(RANKS, LARGEST, MESSAGES, &c->hub));
    for (int r = 0; r < RANKS; r++) {
        sl_transport_config config = {.rank = r, .ranks = RANKS, .clock = c->clock, .hub = c->hub};
        players[r] = (player){.c = c,
                              .rank = r,
                              .in = memory + (size_t)(2 * r) * RANKS * MESSAGES * LARGEST,
                              .out = memory + (size_t)(2 * r + 1) * RANKS * MESSAGES * LARGEST};
        assert_ok(sl_transport_open(&config, -1, SL_SECOND, &players[r].transport));
    }
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(pthread_create(&thread[r], NULL, play, &players[r]), 0);
    for (int r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < RANKS; r++)
        sl_transport_close(players[r].transport);
    sl_transport_hub_close(c->hub);
    sl_clock_close(c->clock);
    free(memory);
}

static void random_messages_arrive_whole_and_exactly_when_the_naive_computation_says(void **state) {
    (void)state;
    uint64_t seed = seed_of_the_run();
    for (int round = 0; round < 10; round++) {
        cluster *c = calloc(1, sizeof *c);
        assert_non_null(c);
        make_plan(c, &seed);
        run_cluster(c);
        assert_int_equal(c->failures, 0);
        for (int from = 0; from < RANKS; from++)
            for (int to = 0; to < RANKS; to++) {
                if (from == to)
                    continue;
                expect(c, from, to);
                for (int k = 0; k < ITERATIONS; k++)
                    for (int i = 0; i < MESSAGES; i++) {
                        planned *m = &c->plan[k][from][to][i];
                        assert_int_equal(m->sent.start, m->start);
                        assert_int_equal(m->sent.end, m->end);
                        assert_int_equal(m->sent.due, m->due);
                        assert_int_equal(m->sent.arrive, m->due);
                        assert_int_equal(m->arrived, m->due);
                    }
            }
        free(c);
    }
}

/* ---- two ranks, by hand ---- */

typedef struct two {
    sl_clock *clock;
    sl_transport_hub *hub;
    sl_transport *transport[2];
} two;

static void open_two(two *w, sl_clock *clock, size_t message_bytes, int slots) {
    w->clock = clock;
    assert_ok(sl_transport_hub_open(2, message_bytes, slots, &w->hub));
    for (int r = 0; r < 2; r++) {
        sl_transport_config config = {.rank = r, .ranks = 2, .clock = clock, .hub = w->hub};
        assert_ok(sl_transport_open(&config, -1, SL_SECOND, &w->transport[r]));
    }
}

static void close_two(two *w) {
    sl_transport_close(w->transport[0]);
    sl_transport_close(w->transport[1]);
    sl_transport_hub_close(w->hub);
}

static void emulation_changed_in_mid_run_holds_for_messages_from_then_on(void **state) {
    (void)state;
    two w;
    sl_clock *clock;
    uint64_t out[3] = {11, 22, 33}, in[3] = {0};
    sl_time arrived[3];
    sl_sent sent;
    assert_ok(sl_clock_open_virtual(1, &clock));
    open_two(&w, clock, 8, 4);
    for (uint32_t i = 0; i < 3; i++)
        assert_ok(sl_transport_receive(w.transport[1], 0, 0, i, &in[i], 8));
    assert_ok(sl_transport_send(w.transport[0], 1, 0, 0, &out[0], 8, 10 * SL_MS)); /* no emulation */
    sl_transport_emulate(w.transport[0], 1,
                         (sl_link_emulation){.latency = 60 * SL_MS, .bytes_per_second = 1000});
    assert_ok(
        sl_transport_send(w.transport[0], 1, 0, 1, &out[1], 8, 20 * SL_MS)); /* 8 ms on the link, 60 later */
    sl_transport_emulate(w.transport[0], 1, (sl_link_emulation){0});
    assert_ok(sl_transport_send(w.transport[0], 1, 0, 2, &out[2], 8, 100 * SL_MS));
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(sl_transport_wait(w.transport[1], 0, 0, i, SL_TIME_NEVER, &arrived[i]));
        assert_ok(sl_transport_wait_sent(w.transport[0], 1, 0, i, SL_TIME_NEVER, &sent));
        assert_int_equal(sent.arrive, arrived[i]);
        assert_int_equal(in[i], out[i]);
    }
    assert_int_equal(arrived[0], 10 * SL_MS);
    assert_int_equal(arrived[1], 88 * SL_MS);
    assert_int_equal(arrived[2], 100 * SL_MS);
    close_two(&w);
    sl_clock_leave(clock);
    sl_clock_close(clock);
}

/* 60 ms from rank 0 to 1, 20 ms from 0 to 2. */
static void a_wait_for_any_sent_ends_with_the_first(void **state) {
    (void)state;
    sl_clock *clock;
    sl_transport_hub *hub;
    sl_transport *t[3];
    char out[4] = "abc";
    sl_sent sent;
    int which;
    assert_ok(sl_clock_open_virtual(1, &clock));
    assert_ok(sl_transport_hub_open(3, 4, 2, &hub));
    for (int r = 0; r < 3; r++) {
        sl_transport_config config = {.rank = r, .ranks = 3, .clock = clock, .hub = hub};
        assert_ok(sl_transport_open(&config, -1, SL_SECOND, &t[r]));
    }
    sl_transport_emulate(t[0], 1, (sl_link_emulation){.latency = 60 * SL_MS});
    sl_transport_emulate(t[0], 2, (sl_link_emulation){.latency = 20 * SL_MS});
    sl_message_name name[2] = {{.peer = 1, .index = 5}, {.peer = 2, .index = 6}};
    for (int i = 0; i < 2; i++)
        assert_ok(sl_transport_send(t[0], name[i].peer, 0, name[i].index, out, 4, 0));
    assert_ok(sl_transport_wait_any_sent(t[0], name, 2, 0, &which, &sent)); /* asks, does not sleep */
    assert_int_equal(which, -1);
    assert_int_equal(sl_clock_now(clock), 0);
    assert_ok(sl_transport_wait_any_sent(t[0], name, 2, SL_SECOND, &which, &sent));
    assert_int_equal(which, 1);
    assert_int_equal(sent.arrive, 20 * SL_MS);
    assert_int_equal(sl_clock_now(clock), 20 * SL_MS);
    assert_fails(sl_transport_wait_any_sent(t[0], name, 2, SL_SECOND, &which, &sent), SL_EINVAL,
                 "link 0 -> 2"); /* once each */
    assert_fails(sl_transport_wait_any_sent(t[0], name, 1, 50 * SL_MS, &which, &sent), SL_EPEER, "deadline");
    assert_ok(sl_transport_wait_any_sent(t[0], name, 1, SL_SECOND, &which, &sent));
    assert_int_equal(which, 0);
    assert_int_equal(sent.arrive, 60 * SL_MS);
    assert_fails(sl_transport_wait_any_sent(t[0], name, 0, SL_SECOND, &which, &sent), SL_EINVAL, "any of 0");
    for (int r = 0; r < 3; r++)
        sl_transport_close(t[r]);
    sl_transport_hub_close(hub);
    sl_clock_leave(clock);
    sl_clock_close(clock);
}

/* 1 kB/s: 10 bytes take 10 ms. Both senders are on one wire towards rank 1; the way back has another. */
static void links_on_one_wire_wait_for_each_other(void **state) {
    (void)state;
    enum { WAN = 9, BACK = 10 };
    static const int wire[9] = {0, WAN, 2, BACK, 4, BACK, 6, WAN, 8};
    sl_clock *clock;
    sl_transport_hub *hub;
    sl_transport *t[3];
    char out[10] = "", in[4][10];
    sl_time arrived[4];
    assert_ok(sl_clock_open_virtual(1, &clock));
    assert_ok(sl_transport_hub_open(3, 10, 4, &hub));
    for (int r = 0; r < 3; r++) {
        sl_transport_config config = {.rank = r, .ranks = 3, .clock = clock, .hub = hub, .wire = wire};
        assert_ok(sl_transport_open(&config, -1, SL_SECOND, &t[r]));
        for (int peer = 0; peer < 3; peer++)
            if (peer != r)
                sl_transport_emulate(t[r], peer, (sl_link_emulation){.bytes_per_second = 1000});
    }
    assert_true(sl_transport_shares_wire(t[0], 1));
    assert_false(sl_transport_shares_wire(t[0], 2));
    static const int way[4][2] = {{0, 1}, {2, 1}, {1, 2}, {0, 2}};
    for (int i = 0; i < 4; i++) {
        assert_ok(sl_transport_receive(t[way[i][1]], way[i][0], 0, 7, in[i], 10));
        assert_ok(sl_transport_send(t[way[i][0]], way[i][1], 0, 7, out, 10, 0));
    }
    for (int i = 0; i < 4; i++) {
        assert_ok(sl_transport_wait(t[way[i][1]], way[i][0], 0, 7, SL_TIME_NEVER, &arrived[i]));
        assert_ok(sl_transport_wait_sent(t[way[i][0]], way[i][1], 0, 7, SL_TIME_NEVER, NULL));
    }
    assert_int_equal(arrived[0], 10 * SL_MS);
    assert_int_equal(arrived[1], 20 * SL_MS);
    assert_int_equal(arrived[2], 10 * SL_MS);
    assert_int_equal(arrived[3], 10 * SL_MS);
    for (int r = 0; r < 3; r++)
        sl_transport_close(t[r]);
    sl_transport_hub_close(hub);
    sl_clock_leave(clock);
    sl_clock_close(clock);
}

static void
a_message_handed_over_late_is_timed_from_its_ready_time_and_arrives_at_once_when_overdue(void **state) {
    (void)state;
    two w;
    sl_clock *clock;
    uint64_t data = 7;
    sl_sent sent[3];
    assert_ok(sl_clock_open_virtual(1, &clock));
    open_two(&w, clock, 8, 4);
    sl_clock_sleep_until(clock, 100 * SL_MS);
    /* 8 bytes at 1 kB/s: 8 ms on the link, 20 ms of latency. The first was ready at 40: on the link until 48,
     * due at 68, long past. The second was ready at 45: until 56, due at 76, past. The third was ready at 90:
     * until 98, due at 118, which is still to come. */
    sl_transport_emulate(w.transport[0], 1,
                         (sl_link_emulation){.latency = 20 * SL_MS, .bytes_per_second = 1000});
    static const sl_time ready[3] = {40 * SL_MS, 45 * SL_MS, 90 * SL_MS},
                         end[3] = {48 * SL_MS, 56 * SL_MS, 98 * SL_MS};
    for (uint32_t i = 0; i < 3; i++)
        assert_ok(sl_transport_send(w.transport[0], 1, 0, i, &data, 8, ready[i]));
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(sl_transport_wait_sent(w.transport[0], 1, 0, i, SL_TIME_NEVER, &sent[i]));
        assert_int_equal(sent[i].end, end[i]);
        assert_int_equal(sent[i].due, end[i] + 20 * SL_MS);
        assert_int_equal(sent[i].arrive, i < 2 ? 100 * SL_MS : 118 * SL_MS);
    }
    close_two(&w);
    sl_clock_leave(clock);
    sl_clock_close(clock);
}

static void a_deadline_ends_a_wait_and_the_message_can_still_come(void **state) {
    (void)state;
    two w;
    sl_clock *clock;
    uint32_t out = 5, in = 0;
    sl_time arrived;
    assert_ok(sl_clock_open_virtual(1, &clock));
    open_two(&w, clock, 4, 1);
    assert_ok(sl_transport_receive(w.transport[1], 0, 7, 3, &in, 4));
    assert_ok(sl_transport_send(w.transport[0], 1, 7, 3, &out, 4, 50 * SL_MS));
    assert_fails(sl_transport_wait(w.transport[1], 0, 7, 3, 20 * SL_MS, &arrived), SL_EPEER, "link 0 -> 1");
    assert_says(sl_error_text(), "iteration 7, index 3");
    assert_int_equal(sl_clock_now(clock), 20 * SL_MS);
    assert_fails(sl_transport_wait_sent(w.transport[0], 1, 7, 3, 30 * SL_MS, NULL), SL_EPEER, "link 0 -> 1");
    assert_int_equal(sl_clock_now(clock), 30 * SL_MS);
    assert_ok(sl_transport_wait(w.transport[1], 0, 7, 3, SL_TIME_NEVER, &arrived));
    assert_int_equal(arrived, 50 * SL_MS);
    assert_int_equal(in, 5);
    close_two(&w);
    sl_clock_leave(clock);
    sl_clock_close(clock);
}

static void a_message_of_another_size_than_posted_is_refused_and_writes_nothing(void **state) {
    (void)state;
    two w;
    uint8_t out[16] = {1, 2, 3}, in[16] = {0}, untouched[16] = {0};
    open_two(&w, sl_clock_real(), 16, 4);
    assert_ok(sl_transport_receive(w.transport[1], 0, 0, 0, in, 8));
    assert_ok(sl_transport_send(w.transport[0], 1, 0, 0, out, 16, 0));
    assert_fails(sl_transport_wait(w.transport[1], 0, 0, 0, SL_TIME_NEVER, NULL), SL_EPEER, "link 0 -> 1");
    assert_says(sl_error_text(), "16 bytes");
    assert_memory_equal(in, untouched, sizeof in);
    close_two(&w);
}

static void requests_that_make_no_sense_are_refused_with_a_reason(void **state) {
    (void)state;
    two w;
    uint8_t data[16] = {0};
    open_two(&w, sl_clock_real(), 16, 2);
    sl_transport *t = w.transport[0];
    assert_fails(sl_transport_send(t, 0, 0, 0, data, 1, 0), SL_EINVAL, "no link with rank 0");
    assert_fails(sl_transport_send(t, 2, 0, 0, data, 1, 0), SL_EINVAL, "no link with rank 2");
    assert_fails(sl_transport_send(t, 1, 0, 0, data, 17, 0), SL_EINVAL, "17 bytes");
    assert_fails(sl_transport_wait(t, 1, 0, 0, SL_TIME_NEVER, NULL), SL_EINVAL, "was not posted");
    assert_fails(sl_transport_wait_sent(t, 1, 0, 0, SL_TIME_NEVER, NULL), SL_EINVAL, "was not handed over");
    assert_ok(sl_transport_receive(t, 1, 0, 0, data, 1));
    assert_fails(sl_transport_receive(t, 1, 0, 0, data, 1), SL_EINVAL, "posted already");
    assert_ok(sl_transport_receive(t, 1, 0, 1, data, 1));
    assert_fails(sl_transport_receive(t, 1, 0, 2, data, 1), SL_EINVAL, "slots");
    assert_ok(sl_transport_send(t, 1, 0, 0, data, 1, 0));
    assert_fails(sl_transport_send(t, 1, 0, 0, data, 1, 0), SL_EINVAL, "under way already");
    assert_ok(sl_transport_send(t, 1, 0, 1, data, 1, 0));
    assert_fails(sl_transport_send(t, 1, 0, 2, data, 1, 0), SL_EINVAL, "slots");
    close_two(&w);
    sl_clock *clock;
    assert_ok(sl_clock_open_virtual(1, &clock));
    sl_transport_config config = {.rank = 0, .ranks = 2, .clock = clock, .directory = "/tmp", .slots = 1};
    assert_fails(sl_transport_open(&config, -1, 0, &t), SL_EINVAL, "virtual clock");
    assert_null(t);
    sl_transport_close(NULL);
    sl_transport_hub_close(NULL);
    sl_clock_leave(clock);
    sl_clock_close(clock);
}

/* The receiver leaves its messages where they are; the sender goes on for a whole round more, whose messages
 * must wait for the places, in order, and overwrite nothing. */
static void a_message_without_a_free_place_waits_for_the_receiver(void **state) {
    (void)state;
    two w;
    sl_clock *clock;
    uint32_t out[2][3], in[2][3];
    sl_time arrived;
    assert_ok(sl_clock_open_virtual(1, &clock));
    open_two(&w, clock, 4, 3);
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < 3; i++) {
            out[k][i] = 100 * k + i;
            assert_ok(sl_transport_send(w.transport[0], 1, k, i, &out[k][i], 4, k * SL_MS));
            if (k == 0)
                assert_ok(sl_transport_wait_sent(w.transport[0], 1, k, i, SL_TIME_NEVER, NULL));
        }
    assert_fails(sl_transport_wait_sent(w.transport[0], 1, 1, 0, 5 * SL_MS, NULL), SL_EPEER, "deadline");
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < 3; i++) {
            assert_ok(sl_transport_receive(w.transport[1], 0, k, i, &in[k][i], 4));
            assert_ok(sl_transport_wait(w.transport[1], 0, k, i, SL_TIME_NEVER, &arrived));
            assert_int_equal(in[k][i], out[k][i]);
            assert_int_equal(
                arrived, k == 0 ? 0 : 5 * SL_MS); /* the places became free when the clock stood at 5 ms */
        }
    for (uint32_t i = 0; i < 3; i++)
        assert_ok(sl_transport_wait_sent(w.transport[0], 1, 1, i, SL_TIME_NEVER, NULL));
    close_two(&w);
    sl_clock_leave(clock);
    sl_clock_close(clock);
}

static void a_deadlock_on_the_virtual_clock_is_an_error_and_no_hang(void **state) {
    (void)state;
    two w;
    sl_clock *clock;
    uint32_t in;
    assert_ok(sl_clock_open_virtual(1, &clock));
    open_two(&w, clock, 4, 1);
    assert_ok(sl_transport_receive(w.transport[1], 0, 0, 0, &in, 4));
    assert_fails(sl_transport_wait(w.transport[1], 0, 0, 0, SL_TIME_NEVER, NULL), SL_EPEER, "deadlock");
    close_two(&w);
    sl_clock_leave(clock);
    sl_clock_close(clock);
}

/* ---- abort, on the real clock ---- */

typedef struct waiting {
    sl_transport *transport;
    int sent; /* waits for a message of its own to be sent instead of one to come */
    _Atomic int about_to_wait;
    sl_status status;
    char text[256];
} waiting;

static void *wait_for_ever(void *object) {
    waiting *w = object;
    uint32_t in;
    if (w->sent) {
        /* ready in the far future */
        w->status = sl_transport_send(w->transport, 1, 0, 0, &in, 4,
                                      sl_clock_now(sl_clock_real()) + 3600 * SL_SECOND);
        atomic_store(&w->about_to_wait, 1);
        if (w->status == SL_OK)
            w->status = sl_transport_wait_sent(w->transport, 1, 0, 0, SL_TIME_NEVER, NULL);
    } else {
        w->status = sl_transport_receive(w->transport, 1, 0, 0, &in, 4);
        atomic_store(&w->about_to_wait, 1);
        if (w->status == SL_OK)
            w->status = sl_transport_wait(w->transport, 1, 0, 0, SL_TIME_NEVER, NULL);
    }
    snprintf(w->text, sizeof w->text, "%s", sl_error_text());
    return NULL;
}

static void an_abort_ends_every_wait_whenever_it_comes(void **state) {
    (void)state;
    uint64_t seed = seed_of_the_run();
    for (int round = 0; round < 200; round++) {
        two w;
        pthread_t thread;
        waiting one = {.sent = round % 2};
        open_two(&w, sl_clock_real(), 4, 1);
        one.transport = w.transport[0];
        assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, &one), 0);
        while (!atomic_load(&one.about_to_wait))
            sched_yield();
        /* from before it sleeps to well after */
        sl_clock_sleep_until(sl_clock_real(),
                             sl_clock_now(sl_clock_real()) + (sl_time)(random_next(&seed) % 100000));
        sl_transport_abort(w.transport[0]);
        pthread_join(thread, NULL);
        assert_int_equal(one.status, SL_EPEER);
        assert_says(one.text, one.sent ? "link 0 -> 1" : "link 1 -> 0");
        assert_non_null(strstr(one.text, "aborted"));
        assert_fails(sl_transport_wait_sent(w.transport[0], 1, 9, 9, 0, NULL), SL_EINVAL, "not handed over");
        close_two(&w);
    }
}

static void an_allocation_that_fails_anywhere_while_opening_is_an_error_and_leaves_nothing(void **state) {
    (void)state;
    int failures = 0;
    for (long n = 0;; n++) {
        sl_transport_hub *hub = NULL;
        sl_transport *t = NULL;
        sl_alloc_fail_at(n);
        sl_status status = sl_transport_hub_open(3, 100, 4, &hub);
        if (status == SL_OK) {
            sl_transport_config config = {.rank = 1, .ranks = 3, .clock = sl_clock_real(), .hub = hub};
            status = sl_transport_open(&config, -1, 0, &t);
        }
        sl_alloc_fail_at(-1);
        assert_true(status == SL_OK || (status == SL_ENOMEM && t == NULL));
        failures += status != SL_OK;
        sl_transport_close(t);
        sl_transport_hub_close(hub);
        if (status == SL_OK)
            break;
    }
    assert_true(failures > 10); /* three regions, two peers of six arrays each, and more */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_messages_arrive_whole_and_exactly_when_the_naive_computation_says),
        cmocka_unit_test(a_wait_for_any_sent_ends_with_the_first),
        cmocka_unit_test(links_on_one_wire_wait_for_each_other),
        cmocka_unit_test(emulation_changed_in_mid_run_holds_for_messages_from_then_on),
        cmocka_unit_test(
            a_message_handed_over_late_is_timed_from_its_ready_time_and_arrives_at_once_when_overdue),
        cmocka_unit_test(a_deadline_ends_a_wait_and_the_message_can_still_come),
        cmocka_unit_test(a_message_of_another_size_than_posted_is_refused_and_writes_nothing),
        cmocka_unit_test(requests_that_make_no_sense_are_refused_with_a_reason),
        cmocka_unit_test(a_message_without_a_free_place_waits_for_the_receiver),
        cmocka_unit_test(a_deadlock_on_the_virtual_clock_is_an_error_and_no_hang),
        cmocka_unit_test(an_abort_ends_every_wait_whenever_it_comes),
        cmocka_unit_test(an_allocation_that_fails_anywhere_while_opening_is_an_error_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
