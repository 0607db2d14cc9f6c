/* The ping test: what two ranks find out about emulated links, exact on the virtual clock; and the fit, by
 * hand, with late wake-ups, clocks that differ and halves that are missing. */
#include "check.h"

#include "run/journal/ping.h"
#include "run/transport/hub.h"
#include "virtual_clock.h"

#include <pthread.h>

enum { RANKS = 3, BYTES = 100000 };

typedef struct player {
    sl_clock *clock;
    sl_transport *transport;
    int rank, halves;
    sl_ping_half half[2 * SL_PING_MAX];
    sl_status status;
} player;

static const sl_ping_pair pairs[2] = {{0, 1}, {1, 2}};

static void *play(void *object) {
    player *p = object;
    p->status =
        sl_ping(p->transport, p->clock, p->rank, pairs, 2, BYTES, 10 * SL_SECOND, p->half, &p->halves);
    sl_clock_leave(p->clock);
    return NULL;
}

/* 0 to 1: 60 ms and 0.1 Gbit/s, which is 80 ns a byte; back: nothing but 5 ms; 1 and 2: 2 ms, 8 ns a byte. */
static void emulated_links_are_found_as_they_are(void **state) {
    (void)state;
    static const struct {
        int from, to;
        sl_time latency;
        double per_byte;
    } truth[] = {{0, 1, 60 * SL_MS, 80}, {1, 0, 5 * SL_MS, 0}, {1, 2, 2 * SL_MS, 8}, {2, 1, 2 * SL_MS, 8}};
    sl_clock *clock;
    sl_transport_hub *hub;
    player p[RANKS];
    pthread_t thread[RANKS];
    assert_ok(sl_clock_open_virtual(RANKS, &clock));
    assert_ok(sl_transport_hub_open(RANKS, BYTES, 8, &hub));
    for (int r = 0; r < RANKS; r++) {
        sl_transport_config config = {
            .rank = r, .ranks = RANKS, .clock = clock, .hub = hub, .message_bytes = BYTES, .slots = 8};
        p[r] = (player){.clock = clock, .rank = r};
        assert_ok(sl_transport_open(&config, -1, SL_SECOND, &p[r].transport));
    }
    for (size_t i = 0; i < sizeof truth / sizeof truth[0]; i++)
        sl_transport_emulate(
            p[truth[i].from].transport, truth[i].to,
            (sl_link_emulation){.latency = truth[i].latency,
                                .bytes_per_second = truth[i].per_byte > 0 ? 1e9 / truth[i].per_byte : 0});
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(pthread_create(&thread[r], NULL, play, &p[r]), 0);
    sl_ping_half all[4 * SL_PING_MAX];
    int halves = 0;
    for (int r = 0; r < RANKS; r++) {
        pthread_join(thread[r], NULL);
        assert_int_equal(p[r].status, SL_OK);
        for (int i = 0; i < p[r].halves; i++)
            all[halves++] = p[r].half[i];
    }
    /* slow links make do with fewer rounds: 75 ms there and back, and a fast one has them all */
    assert_true(p[0].halves >= 4 && p[0].halves < SL_PING_MAX && p[2].halves == SL_PING_MAX);
    static const sl_offset clocks[RANKS];
    sl_ping_link link[RANKS * RANKS] = {{0}};
    assert_ok(sl_ping_fit(all, halves, pairs, 2, clocks, RANKS, link));
    for (size_t i = 0; i < sizeof truth / sizeof truth[0]; i++) {
        const sl_ping_link *l = &link[truth[i].from * RANKS + truth[i].to];
        assert_true(l->rounds > 0);
        assert_near((double)l->latency, (double)truth[i].latency, 1000); /* the fit rounds to ns a byte */
        assert_near(l->per_byte, truth[i].per_byte, 0.001);
        assert_near((double)sl_ping_time(l, BYTES), (double)truth[i].latency + truth[i].per_byte * BYTES,
                    1000);
    }
    assert_int_equal(link[0 * RANKS + 2].rounds, 0); /* nobody sends there */
    for (int r = 0; r < RANKS; r++)
        sl_transport_close(p[r].transport);
    sl_transport_hub_close(hub);
    sl_clock_close(clock);
}

/* Rounds of both sizes as a link of 10 us and 2 ns a byte there, 30 us and 1 ns a byte back shows them, with
 * the clock of b ahead by `ahead`. */
static int make_rounds(sl_time ahead, sl_ping_half *half) {
    int count = 0;
    for (int round = 0; round < SL_PING_MAX; round++) {
        int64_t bytes = round % 2 ? 20000 : 64;
        sl_time sent = 1000000 * round, there = 10000 + 2 * bytes, answered = sent + there + 5000,
                back = 30000 + bytes;
        half[count++] =
            (sl_ping_half){.round = round, .bytes = bytes, .sent = sent, .heard = answered + back};
        half[count++] = (sl_ping_half){.round = round,
                                       .rank = 1,
                                       .bytes = bytes,
                                       .sent = answered + ahead,
                                       .heard = sent + there + ahead};
    }
    return count;
}

static void fit_is(const sl_ping_half *half, int count, const sl_offset *clock, double latency,
                   double per_byte, double latency_back, double per_byte_back) {
    sl_ping_link link[4] = {{0}};
    assert_ok(sl_ping_fit(half, count, pairs, 1, clock, 2, link));
    assert_near((double)link[1].latency, latency, 2);
    assert_near(link[1].per_byte, per_byte, 1e-3);
    assert_near((double)link[2].latency, latency_back, 2);
    assert_near(link[2].per_byte, per_byte_back, 1e-3);
}

static void a_few_late_wake_ups_do_not_count(void **state) {
    (void)state;
    static const sl_offset same[2];
    sl_ping_half half[2 * SL_PING_MAX];
    int count = make_rounds(0, half);
    fit_is(half, count, same, 10000, 2, 30000, 1);
    /* the first round of either size, and two later ones of each direction, came milliseconds late */
    for (int i = 0; i < 4; i++)
        half[i].heard += 7000000;
    half[2 * 5].heard += 3000000;
    half[2 * 8].heard += 2000000;
    half[2 * 9 + 1].heard += 4000000;
    half[2 * 10 + 1].heard += 1000000;
    fit_is(half, count, same, 10000, 2, 30000, 1);
    /* what only one end has seen says nothing */
    half[2 * 7].bytes = 1;
    half[2 * 6 + 1].rank = 17;
    fit_is(half, count, same, 10000, 2, 30000, 1);
}

/* The mean of both: 20 us and 1.5 ns a byte. */
static void directions_between_unsure_clocks_count_half_the_round_trip(void **state) {
    (void)state;
    sl_offset clock[2] = {{0}, {.offset = 123456789}};
    sl_ping_half half[2 * SL_PING_MAX];
    int count = make_rounds(123456789, half);
    fit_is(half, count, clock, 10000, 2, 30000, 1); /* known exactly */
    clock[1].error = 1000000;
    fit_is(half, count, clock, 20000, 1.5, 20000, 1.5);
    clock[1].offset += 25000; /* as far off as the error allows it to be */
    fit_is(half, count, clock, 20000, 1.5, 20000, 1.5);
}

static void no_rounds_are_no_link(void **state) {
    (void)state;
    static const sl_offset same[2];
    sl_ping_half half[2 * SL_PING_MAX];
    sl_ping_link link[4] = {{0}};
    make_rounds(0, half);
    assert_ok(sl_ping_fit(half, 0, pairs, 1, same, 2, link));
    assert_ok(sl_ping_fit(half, 4, pairs, 1, same, 2, link)); /* only what warms up */
    assert_true(link[1].rounds == 0 && link[2].rounds == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emulated_links_are_found_as_they_are),
        cmocka_unit_test(a_few_late_wake_ups_do_not_count),
        cmocka_unit_test(directions_between_unsure_clocks_count_half_the_round_trip),
        cmocka_unit_test(no_rounds_are_no_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
