/* The receiving side by hand: each promise of conduit.h in one case. */
#include "conduit_calls.h"

static void messages_are_published_in_order_once_complete(void **state) {
    (void)state;
    sl_receiver *r = make_receiver(4, 0);
    takes(r, 0, cut(1, 0, 0));
    takes(r, 1, cut(0, 1, 25));
    takes(r, 0, cut(0, 2, 25));
    assert_false(complete(r));
    begins(r, 1, cut(0, 0, 25), SL_CHUNK_TAKE);
    assert_false(complete(r)); /* it is being read */
    sl_receiver_finish(r, 1);
    publishes(r, 25);
    publishes(r, 0);
    assert_false(complete(r));
    sl_conduit_state said = sl_receiver_state(r, EPOCH);
    assert_int_equal(said.epoch, EPOCH);
    assert_int_equal(said.published, 2);
    assert_int_equal(said.limit, 4);
    sl_receiver_close(r);
}

static void a_chunk_is_taken_once(void **state) {
    (void)state;
    sl_receiver *r = make_receiver(4, 0);
    begins(r, 0, cut(0, 0, 20), SL_CHUNK_TAKE);
    begins(r, 1, cut(0, 0, 20), SL_CHUNK_IGNORE); /* it is being read on rail 0 */
    sl_receiver_finish(r, 1);                     /* which says nothing of it */
    sl_receiver_rail_down(r, 0);
    begins(r, 1, cut(0, 0, 20), SL_CHUNK_TAKE);
    sl_receiver_finish(r, 0);
    sl_receiver_finish(r, 1);
    begins(r, 0, cut(0, 0, 20), SL_CHUNK_ACKNOWLEDGE);
    takes(r, 0, cut(0, 1, 20));
    sl_receiver_finish(r, 0); /* a second time */
    publishes(r, 20);
    sl_receiver_close(r);
}

static void a_broken_chunk_is_taken_again(void **state) {
    (void)state;
    sl_receiver *r = make_receiver(4, 0);
    begins(r, 0, cut(0, 0, 10), SL_CHUNK_TAKE);
    sl_receiver_rail_down(r, 0); /* a wrong checksum, say */
    sl_receiver_finish(r, 0);
    assert_false(complete(r));
    takes(r, 0, cut(0, 0, 10));
    publishes(r, 10);
    sl_receiver_close(r);
}

/* Message n and n + window share an entry. */
static void a_late_duplicate_never_touches_the_message_in_its_place(void **state) {
    (void)state;
    sl_receiver *r = make_receiver(2, 0);
    takes(r, 0, cut(0, 0, 20));
    takes(r, 0, cut(0, 1, 20));
    begins(r, 0, cut(2, 0, 10), SL_CHUNK_IGNORE); /* beyond the limit of 2 */
    publishes(r, 20);
    begins(r, 0, cut(2, 0, 10), SL_CHUNK_IGNORE); /* no place before the caller says so */
    sl_receiver_allow(r, 3);
    begins(r, 0, cut(0, 1, 20), SL_CHUNK_ACKNOWLEDGE);
    sl_receiver_finish(r, 0);
    takes(r, 0, cut(1, 0, 10));
    publishes(r, 10);
    assert_false(complete(r)); /* nothing of 0 is left in the entry of 2 */
    takes(r, 0, cut(2, 0, 15));
    begins(r, 0, cut(0, 1, 20), SL_CHUNK_ACKNOWLEDGE);
    sl_receiver_finish(r, 0);
    assert_false(complete(r));
    takes(r, 0, cut(2, 1, 15));
    publishes(r, 15);
    sl_receiver_close(r);
}

static void the_limit_never_goes_back_nor_beyond_the_window(void **state) {
    (void)state;
    sl_receiver_config config = {2, 10, 1000, 7};
    sl_receiver *r;
    assert_ok(sl_receiver_open(&config, &r));
    assert_int_equal(sl_receiver_state(r, 1).published, 7);
    assert_int_equal(sl_receiver_state(r, 1).limit, 7); /* nothing is allowed yet */
    begins(r, 0, cut(7, 0, 10), SL_CHUNK_IGNORE);
    sl_receiver_allow(r, 100);
    sl_receiver_allow(r, 8);
    assert_int_equal(sl_receiver_state(r, 1).limit, 9);
    takes(r, 0, cut(7, 0, 10));
    publishes(r, 10);
    assert_int_equal(sl_receiver_state(r, 1).limit, 10);
    sl_receiver_close(r);
}

static void garbage_from_the_peer_is_an_error(void **state) {
    (void)state;
    sl_receiver *r = make_receiver(4, 0);
    takes(r, 0, cut(0, 0, 25));
    static const sl_chunk wrong[] = {
        {0, 1, 10, 10, 26},                           /* other bytes in all than before */
        {0, 3, 0, 30, 25},                            /* no such chunk */
        {0, 1, 10, 11, 25},                           /* offset */
        {0, 1, 9, 10, 25},         {0, 2, 6, 20, 25}, /* bytes */
        {0, 1, 11, 10, 25},                           /* more than a chunk */
        {1, 0, 10, 0, 1001},                          /* more than a place */
        {1, 0, 0, 0, 10},          {1, 1, 0, 10, 0},
        {1, 0, 1, 0, 0},           {1, UINT32_MAX, 10, UINT64_C(42949672950), UINT64_MAX},
        {UINT64_MAX, 0, 11, 0, 11} /* also beyond the limit */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sl_chunk_verdict verdict = SL_CHUNK_TAKE;
        if (sl_receiver_begin(r, 1, &wrong[i], &verdict) != SL_EPEER || verdict == SL_CHUNK_TAKE)
            fail_msg("garbage %zu is taken", i);
        sl_receiver_finish(r, 1);
    }
    begins(r, 1, cut(UINT64_MAX, 0, 10), SL_CHUNK_IGNORE);
    takes(r, 1, cut(0, 1, 25));
    takes(r, 1, cut(0, 2, 25));
    publishes(r, 25);
    sl_receiver_close(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_published_in_order_once_complete),
        cmocka_unit_test(a_chunk_is_taken_once),
        cmocka_unit_test(a_broken_chunk_is_taken_again),
        cmocka_unit_test(a_late_duplicate_never_touches_the_message_in_its_place),
        cmocka_unit_test(the_limit_never_goes_back_nor_beyond_the_window),
        cmocka_unit_test(garbage_from_the_peer_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
