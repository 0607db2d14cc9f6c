/* Messages over wires of known rate: what their starts and arrivals say about the wire. */
#include "check.h"

#include "random_problem.h"

#include "base/random.h"
#include "plan/timing/wire_fit.h"

#include <stdlib.h>

enum { MESSAGES = 24, RATE_TRIES = 400 };

static sl_time about(uint64_t *state, sl_time least, sl_time most) {
    *state += SL_RANDOM_STEP;
    return least + (sl_time)(sl_random_unit(sl_random_mix(*state)) * (double)(most - least));
}

/* A wire that carries one message at a time, in order. */
static void pass(sl_passage *p, int count, sl_time latency, sl_time transfer, sl_time jitter,
                 uint64_t *state) {
    sl_time free = 0;
    for (int i = 0; i < count; i++) {
        free = (free > p[i].start ? free : p[i].start) + transfer;
        p[i].arrive = free + latency + (jitter ? about(state, 0, jitter) : 0);
    }
}

static void draw_starts(sl_passage *p, int count, sl_time apart, uint64_t *state) {
    sl_time now = 0;
    for (int i = 0; i < count; i++) {
        now += about(state, apart / 2, 3 * apart / 2);
        p[i] = (sl_passage){.start = now, .transfer = i};
    }
}

/* Three messages at once take 10 + 1, 20 + 1, 30 + 1 and so on. */
static void messages_that_queue_show_the_wire(void **unused) {
    (void)unused;
    sl_passage p[6];
    sl_time scratch[6], latency = 0, transfer = 0;
    for (int i = 0; i < 6; i++)
        p[i] = (sl_passage){.start = 0, .arrive = (10 * (i + 1) + 1) * SL_MS};
    assert_int_equal(sl_wire_fit(p, 6, scratch, &latency, &transfer), 1);
    assert_int_equal(transfer, 10 * SL_MS);
    assert_int_equal(latency, 1 * SL_MS);
    for (int i = 0; i < 6; i++)
        assert_int_equal(p[i].wait, 10 * i * SL_MS);
}

static void rates_are_found(void **unused) {
    (void)unused;
    uint64_t state = seed_of(5);
    sl_passage p[MESSAGES];
    sl_time scratch[MESSAGES], latency, transfer;
    for (int round = 0; round < RATE_TRIES; round++) {
        sl_time takes = about(&state, 10 * SL_MS, 100 * SL_MS), delay = about(&state, 0, 30 * SL_MS);
        draw_starts(p, MESSAGES, takes / 2, &state); /* twice as fast as the wire carries them */
        pass(p, MESSAGES, delay, takes, takes / 20, &state);
        assert_int_equal(sl_wire_fit(p, MESSAGES, scratch, &latency, &transfer), 1);
        assert_near((double)transfer, (double)takes, 0.03 * (double)takes);
        assert_near((double)(latency + transfer), (double)(delay + takes), 0.3 * (double)takes);
    }
}

/* Late, but not one after the other: nothing is waited for. */
static void delays_are_no_wire(void **unused) {
    (void)unused;
    uint64_t state = seed_of(6);
    sl_passage p[MESSAGES];
    sl_time scratch[MESSAGES], latency, transfer;
    for (int round = 0; round < RATE_TRIES; round++) {
        sl_time delay = about(&state, 1 * SL_MS, 100 * SL_MS), jitter = round % 2 ? delay / 2 : delay / 50;
        draw_starts(p, MESSAGES, about(&state, delay / 8, delay), &state);
        pass(p, MESSAGES, delay, 0, jitter, &state);
        assert_int_equal(sl_wire_fit(p, MESSAGES, scratch, &latency, &transfer), 0);
        for (int i = 0; i < MESSAGES; i++)
            assert_int_equal(p[i].wait, 0);
    }
}

static void messages_far_apart_say_nothing(void **unused) {
    (void)unused;
    uint64_t state = seed_of(7);
    sl_passage p[MESSAGES];
    sl_time scratch[MESSAGES], latency, transfer;
    draw_starts(p, MESSAGES, 400 * SL_MS, &state);
    pass(p, MESSAGES, SL_MS, 50 * SL_MS, 0, &state);
    assert_int_equal(sl_wire_fit(p, MESSAGES, scratch, &latency, &transfer), 0);
}

/* Of two directions of a link, 0 -> 1 queues. A recorded occupancy is believed. */
static void each_link_is_fitted_alone(void **unused) {
    (void)unused;
    sl_timeline t;
    sl_link link[4] = {{0}};
    sl_time wait[12];
    assert_ok(sl_timeline_make(2, 0, 12, &t));
    for (int i = 0; i < 6; i++) {
        t.transfer[2 * i] = (sl_transfer){
            .from = 0, .to = 1, .start = i * SL_MS, .end = i * SL_MS, .arrive = 20 * (i + 1) * SL_MS};
        t.transfer[2 * i + 1] = (sl_transfer){
            .from = 1, .to = 0, .start = i * SL_MS, .end = i * SL_MS, .arrive = (i + 20) * SL_MS};
    }
    assert_ok(sl_wire_fit_links(&t, link, wait));
    assert_int_equal(link[1].transfer, 20 * SL_MS);
    assert_int_equal(link[1].latency, 0);
    assert_int_equal(link[2].transfer + link[2].latency, 0);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(wait[2 * i], i * (20 - 1) * SL_MS);
        assert_int_equal(wait[2 * i + 1], 0);
    }
    t.transfer[0].end = SL_MS;
    link[1] = (sl_link){0};
    assert_ok(sl_wire_fit_links(&t, link, wait));
    assert_int_equal(link[1].transfer, 0);
    sl_timeline_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_that_queue_show_the_wire), cmocka_unit_test(rates_are_found),
        cmocka_unit_test(delays_are_no_wire), cmocka_unit_test(messages_far_apart_say_nothing),
        cmocka_unit_test(each_link_is_fitted_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
