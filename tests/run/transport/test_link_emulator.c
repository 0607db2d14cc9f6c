/* The timing of an emulated link, against computations by hand. */
#include "check.h"

#include "run/transport/link_emulator.h"

#include <pthread.h>

static void enter(sl_link_emulator *emulator, sl_time ready, uint64_t bytes, sl_time latency,
                  double bytes_per_second, sl_time start, sl_time end, sl_time due) {
    sl_sent times;
    sl_link_emulator_enter(emulator, ready, bytes,
                           (sl_link_emulation){.latency = latency, .bytes_per_second = bytes_per_second},
                           &times);
    assert_int_equal(times.start, start);
    assert_int_equal(times.end, end);
    assert_int_equal(times.due, due);
}

static void a_message_waits_for_the_link_and_arrives_the_latency_later(void **state) {
    (void)state;
    sl_link_emulator link = {0};
    /* 1 MB/s: 1,000 bytes take 1 ms. The second is ready while the first is on the link; the third finds it
     * free. */
    enter(&link, 5 * SL_MS, 1000, 20 * SL_MS, 1e6, 5 * SL_MS, 6 * SL_MS, 26 * SL_MS);
    enter(&link, 5 * SL_MS + 400000, 2000, 20 * SL_MS, 1e6, 6 * SL_MS, 8 * SL_MS, 28 * SL_MS);
    enter(&link, 30 * SL_MS, 500, 20 * SL_MS, 1e6, 30 * SL_MS, 30500000, 50500000);
}

static void nobody_overtakes_when_the_latency_shrinks(void **state) {
    (void)state;
    sl_link_emulator link = {0};
    enter(&link, 10, 8, 1000, 0, 10, 10, 1010);
    enter(&link, 20, 8, 0, 0, 20, 20, 1010); /* not 20 */
    enter(&link, 30, 8, 0, 0, 30, 30, 1010);
    enter(&link, 2000, 8, 0, 0, 2000, 2000, 2000);
}

static void links_on_one_wire_occupy_each_other_but_keep_their_own_order_of_arrival(void **state) {
    (void)state;
    _Atomic int64_t wire = 0;
    sl_link_emulator a = {.wire = &wire}, b = {.wire = &wire};
    enter(&a, 0, 100, 50, 1e9, 0, 100, 150);   /* 1 byte a ns */
    enter(&b, 30, 10, 0, 1e9, 100, 110, 110);  /* waits for a's, arrives before it: another link */
    enter(&a, 105, 10, 0, 1e9, 110, 120, 150); /* waits for b's, and does not overtake on its own link */
    enter(&b, 115, 10, 0, 0, 120, 120, 120);   /* occupies nothing, but the wire must be free */
    enter(&b, 115, 10, 0, 0, 120, 120, 120);
}

/* Two ranks send over one card (1 byte a ns), one of them to a rank behind a card of a quarter of that. */
static void messages_pass_the_cards_at_both_ends_and_share_them(void **state) {
    (void)state;
    _Atomic int64_t sends = 0, receives = 0;
    sl_link_emulator near = {0}, far = {0};
    const sl_link_emulation one = {.latency = 5, .wires = 1, .wire = {{&sends, 1e9}}},
                            both = {.latency = 9, .wires = 2, .wire = {{&sends, 1e9}, {&receives, 0.25e9}}};
    sl_sent times;
    sl_link_emulator_enter(&far, 0, 100, both, &times); /* the slower card decides, and both begin at once */
    assert_true(times.start == 0 && times.end == 400 && times.due == 409);
    sl_link_emulator_enter(&near, 0, 100, one, &times); /* the sending card is free after 100 */
    assert_true(times.start == 100 && times.end == 200 && times.due == 205);
    sl_link_emulator_enter(&far, 0, 20, both, &times); /* 200 to 220 here, there 400 to 480 */
    assert_true(times.start == 400 && times.end == 480 && times.due == 489);
    sl_link_emulator_enter(&near, 0, 10, one, &times);
    assert_true(times.start == 220 && times.end == 230 && times.due == 235);
    sl_link_emulator_enter(&near, 600, 10, one, &times); /* free again */
    assert_true(times.start == 600 && times.end == 610 && times.due == 615);
}

/* A link of 1 byte in 4 ns before a card of 1 byte a ns, which others use meanwhile. */
static void a_slow_link_before_a_card_leaves_it_to_others(void **state) {
    (void)state;
    _Atomic int64_t card = 0;
    sl_link_emulator slow = {0}, other = {0};
    const sl_link_emulation first = {.bytes_per_second = 0.25e9, .wires = 1, .wire = {{&card, 1e9}}},
                            second = {.wires = 1, .wire = {{&card, 1e9}}};
    sl_sent times;
    sl_link_emulator_enter(&slow, 0, 100, first, &times);
    assert_true(times.start == 0 && times.end == 400 && times.due == 400);
    sl_link_emulator_enter(&slow, 0, 100, first, &times);
    assert_true(times.start == 400 && times.end == 800);
    sl_link_emulator_enter(&other, 0, 50, second, &times); /* comes behind the two that asked before it */
    assert_true(times.start == 500 && times.end == 550);
}

enum { THREADS = 4, TAKEN = 20000 };
typedef struct taker {
    _Atomic int64_t *wire;
    sl_time start[TAKEN];
} taker;

static void *take(void *object) {
    taker *t = object;
    sl_link_emulator link = {.wire = t->wire};
    sl_sent times;
    for (int i = 0; i < TAKEN; i++) {
        sl_link_emulator_enter(&link, 0, 7, (sl_link_emulation){.bytes_per_second = 1e9}, &times);
        t->start[i] = times.start;
    }
    return NULL;
}

static void a_wire_is_never_given_twice_for_the_same_time(void **state) {
    (void)state;
    _Atomic int64_t wire = 0;
    pthread_t thread[THREADS];
    taker *all = calloc(THREADS, sizeof *all);
    char *taken = calloc(THREADS * TAKEN, 1);
    assert_non_null(all);
    assert_non_null(taken);
    for (int i = 0; i < THREADS; i++) {
        all[i].wire = &wire;
        assert_int_equal(pthread_create(&thread[i], NULL, take, &all[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < TAKEN; k++) {
            assert_int_equal(all[i].start[k] % 7, 0);
            assert_int_equal(taken[all[i].start[k] / 7]++, 0);
        }
    free(taken);
    free(all);
}

static void a_transfer_is_the_nearest_nanosecond_and_absurd_bandwidths_do_no_harm(void **state) {
    (void)state;
    assert_int_equal(sl_link_emulator_transfer(1000, 3e9), 333); /* 333.3 ns */
    assert_int_equal(sl_link_emulator_transfer(2000, 3e9), 667); /* 666.7 ns */
    assert_int_equal(sl_link_emulator_transfer(1000, 0), 0);
    assert_int_equal(sl_link_emulator_transfer(1000, -1), 0);
    _Atomic int64_t wire = 0;
    sl_link_emulator own = {0}, shared = {.wire = &wire};
    for (uint32_t i = 0; i < 8; i++) {
        sl_sent m;
        sl_link_emulation absurd = {.latency = SL_TIME_NEVER / 2, .bytes_per_second = 1e-300};
        sl_link_emulator_enter(i % 2 ? &own : &shared, 0, UINT64_MAX, absurd, &m);
        assert_true(m.start >= 0 && m.end >= m.start && m.due >= m.end && m.due < SL_TIME_NEVER);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_waits_for_the_link_and_arrives_the_latency_later),
        cmocka_unit_test(nobody_overtakes_when_the_latency_shrinks),
        cmocka_unit_test(links_on_one_wire_occupy_each_other_but_keep_their_own_order_of_arrival),
        cmocka_unit_test(messages_pass_the_cards_at_both_ends_and_share_them),
        cmocka_unit_test(a_slow_link_before_a_card_leaves_it_to_others),
        cmocka_unit_test(a_wire_is_never_given_twice_for_the_same_time),
        cmocka_unit_test(a_transfer_is_the_nearest_nanosecond_and_absurd_bandwidths_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
