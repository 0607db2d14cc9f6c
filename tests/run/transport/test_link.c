/* The timing of an emulated link, against a computation by hand and against one that looks at all messages at
 * once. */
#include "check.h"

#include "run/transport/link.h"

static sl_link_message message(sl_time handed, sl_time ready, uint32_t index, uint64_t bytes, sl_time latency,
                               double bytes_per_second) {
    return (sl_link_message){.handed = handed,
                             .ready = ready,
                             .index = index,
                             .bytes = bytes,
                             .record = (int32_t)index,
                             .emulation = {.latency = latency, .bytes_per_second = bytes_per_second}};
}

static void check_next(sl_link *link, uint32_t index, sl_time start, sl_time end, sl_time due) {
    const sl_link_message *m = sl_link_head(link);
    assert_non_null(m);
    assert_int_equal(m->index, index);
    assert_int_equal(m->start, start);
    assert_int_equal(m->end, end);
    assert_int_equal(m->due, due);
    sl_link_take(link);
}

static void a_message_waits_for_the_link_and_arrives_the_latency_later(void **state) {
    (void)state;
    sl_link link;
    assert_ok(sl_link_open(&link, 4));
    /* 1 MB/s: 1,000 bytes take 1 ms. The second is ready while the first is on the link; the third finds it
     * free. */
    sl_link_message m[3] = {message(0, 5 * SL_MS, 0, 1000, 20 * SL_MS, 1e6),
                            message(0, 5 * SL_MS + 400000, 1, 2000, 20 * SL_MS, 1e6),
                            message(0, 30 * SL_MS, 2, 500, 20 * SL_MS, 1e6)};
    for (int i = 0; i < 3; i++)
        sl_link_offer(&link, &m[i]);
    check_next(&link, 0, 5 * SL_MS, 6 * SL_MS, 26 * SL_MS);
    check_next(&link, 1, 6 * SL_MS, 8 * SL_MS, 28 * SL_MS);
    check_next(&link, 2, 30 * SL_MS, 30500000, 50500000);
    assert_null(sl_link_head(&link));
    sl_link_close(&link);
}

static void nobody_overtakes_when_the_latency_shrinks(void **state) {
    (void)state;
    sl_link link;
    assert_ok(sl_link_open(&link, 2));
    sl_link_message slow = message(0, 10, 0, 8, 1000, 0), fast = message(20, 20, 1, 8, 0, 0);
    sl_link_offer(&link, &slow);
    sl_link_offer(&link, &fast);
    check_next(&link, 0, 10, 10, 1010);
    sl_link_message next = message(30, 30, 2, 8, 0, 0);
    sl_link_offer(&link, &next);
    check_next(&link, 1, 20, 20, 1010); /* not 20 */
    check_next(&link, 2, 30, 30, 1010); /* though the slow one is long gone from the queue */
    sl_link_close(&link);
}

static void a_message_ready_earlier_goes_in_front_unless_the_other_has_started(void **state) {
    (void)state;
    sl_link link;
    assert_ok(sl_link_open(&link, 4));
    /* 1 byte a ns. At time 0: one ready at 0 starts at once; one ready at 100 waits. At 50 one comes that is
     * ready at 60: it goes in front of the latter, never of the former. Equal ready times go by index. */
    sl_link_message m[4] = {message(0, 0, 5, 40, 0, 1e9), message(0, 100, 6, 40, 0, 1e9),
                            message(50, 60, 7, 70, 0, 1e9), message(50, 60, 4, 10, 0, 1e9)};
    for (int i = 0; i < 4; i++)
        sl_link_offer(&link, &m[i]);
    check_next(&link, 5, 0, 40, 40);
    check_next(&link, 4, 60, 70, 70);
    check_next(&link, 7, 70, 140, 140);
    check_next(&link, 6, 140, 180, 180);
    sl_link_close(&link);
}

static void a_transfer_is_the_nearest_nanosecond_and_absurd_bandwidths_do_no_harm(void **state) {
    (void)state;
    assert_int_equal(sl_link_transfer(1000, 3e9), 333); /* 333.3 ns */
    assert_int_equal(sl_link_transfer(2000, 3e9), 667); /* 666.7 ns */
    assert_int_equal(sl_link_transfer(1000, 0), 0);
    assert_int_equal(sl_link_transfer(1000, -1), 0);
    sl_link link;
    assert_ok(sl_link_open(&link, 8));
    for (uint32_t i = 0; i < 8; i++) {
        sl_link_message m = message(0, 0, i, UINT64_MAX, SL_TIME_NEVER / 2, 1e-300);
        sl_link_offer(&link, &m);
    }
    for (uint32_t i = 0; i < 8; i++) {
        const sl_link_message *m = sl_link_head(&link);
        assert_true(m->start >= 0 && m->end >= m->start && m->due >= m->end && m->due < SL_TIME_NEVER);
        sl_link_take(&link);
    }
    sl_link_close(&link);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_waits_for_the_link_and_arrives_the_latency_later),
        cmocka_unit_test(nobody_overtakes_when_the_latency_shrinks),
        cmocka_unit_test(a_message_ready_earlier_goes_in_front_unless_the_other_has_started),
        cmocka_unit_test(a_transfer_is_the_nearest_nanosecond_and_absurd_bandwidths_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
