/* The sending side by hand: each promise of conduit.h in one case. */
#include "conduit_calls.h"

static void a_message_is_cut_into_chunks_and_an_empty_one_has_one(void **state) {
    (void)state;
    sl_sender *s = make_sender(4, 1000, 0);
    sl_chunk chunk;
    offer(s, 25, 0, 0);
    offer(s, 0, 0, 1);
    offer(s, 10, 0, 2);
    up(s, 0, EPOCH, 0, 4, 0);
    static const sl_chunk expected[] = {
        {0, 0, 10, 0, 25}, {0, 1, 10, 10, 25}, {0, 2, 5, 20, 25}, {1, 0, 0, 0, 0}, {2, 0, 10, 0, 10}};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(sl_sender_next(s, 0, 0, &chunk), 1);
        assert_memory_equal(&chunk, &expected[i], sizeof chunk);
    }
    sends_nothing(s, 0, 0);
    says(s, EPOCH, 3, 4);
    assert_int_equal(sl_sender_published(s), 3);
    assert_true(sl_sender_deadline(s) == SL_TIME_NEVER);
    assert_int_equal(sl_sender_resent(s), 0);
    sl_sender_close(s);
}

static void a_large_message_is_striped_over_two_rails(void **state) {
    (void)state;
    sl_sender *s = make_sender(4, 20, 0);
    offer(s, 60, 0, 0);
    up(s, 0, EPOCH, 0, 4, 0);
    up(s, 1, EPOCH, 0, 4, 0);
    sends(s, 0, 0, 0, 0);
    sends(s, 1, 0, 0, 1);
    sends(s, 0, 0, 0, 2);
    sends_nothing(s, 0, 0); /* 20 bytes are under way there */
    sends(s, 1, 0, 0, 3);
    sends_nothing(s, 1, 0);
    sl_sender_acknowledge(s, EPOCH, 0, 1);
    sends_nothing(s, 0, 1);
    sends(s, 1, 1, 0, 4);
    sends_nothing(s, 1, 1);
    sl_sender_close(s);
}

static void a_chunk_larger_than_a_rails_bytes_goes_alone(void **state) {
    (void)state;
    sl_sender *s = make_sender(4, 1, 0);
    offer(s, 20, 0, 0);
    up(s, 0, EPOCH, 0, 4, 0);
    sends(s, 0, 0, 0, 0);
    sends_nothing(s, 0, 0);
    sl_sender_acknowledge(s, EPOCH, 0, 0);
    sends(s, 0, 0, 0, 1);
    sl_sender_close(s);
}

static void a_lost_rails_chunks_go_out_on_the_other_oldest_first(void **state) {
    (void)state;
    sl_sender *s = make_sender(4, 1000, 0);
    offer(s, 30, 0, 0);
    offer(s, 20, 0, 1);
    up(s, 0, EPOCH, 0, 4, 0);
    up(s, 1, EPOCH, 0, 4, 0);
    sends(s, 0, 0, 0, 0);
    sends(s, 1, 0, 0, 1);
    sends(s, 0, 0, 0, 2);
    sends(s, 0, 0, 1, 0);
    sl_sender_acknowledge(s, EPOCH, 0, 0);
    sl_sender_rail_down(s, 0);
    sends_nothing(s, 0, 1);
    sends(s, 1, 1, 0, 2);
    sends(s, 1, 1, 1, 0);
    sends(s, 1, 1, 1, 1); /* the first time */
    sends_nothing(s, 1, 1);
    assert_int_equal(sl_sender_resent(s), 2);
    sl_sender_close(s);
}

static void a_flapping_rail_loses_nothing(void **state) {
    (void)state;
    sl_sender *s = make_sender(4, 1000, 0);
    offer(s, 20, 0, 0);
    for (int flap = 0; flap < 50; flap++) {
        up(s, 0, EPOCH, 0, 4, flap);
        sends(s, 0, flap, 0, 0);
        sends(s, 0, flap, 0, 1);
        sends_nothing(s, 0, flap);
        sl_sender_rail_down(s, 0);
        sl_sender_rail_down(s, 0);
        assert_true(sl_sender_deadline(s) == SL_TIME_NEVER);
    }
    sl_sender_acknowledge(s, EPOCH, 0, 1); /* late, by no rail that is up */
    up(s, 0, EPOCH, 0, 4, 60);
    sends(s, 0, 60, 0, 0);
    up(s, 0, EPOCH, 0, 4, 61); /* came back without having been reported down */
    sends(s, 0, 61, 0, 0);
    sends_nothing(s, 0, 61);
    sl_sender_close(s);
}

static void a_large_message_begins_anew_on_each_loss(void **state) {
    (void)state;
    sl_sender *s = make_sender(1, 100000, 0);
    offer(s, 2000, 0, 0);
    for (int loss = 0; loss < 3; loss++) {
        up(s, 0, EPOCH, 0, 1, loss);
        for (uint32_t i = 0; i < 200; i++)
            sends(s, 0, loss, 0, i);
        sl_sender_rail_down(s, 0);
    }
    sl_sender_close(s);
}

static void what_is_published_is_never_sent_again(void **state) {
    (void)state;
    sl_sender *s = make_sender(1, 1000, 0);
    offer(s, 20, 0, 0);
    up(s, 0, EPOCH, 0, 1000, 0);
    up(s, 1, EPOCH, 0, 1000, 0);
    sends(s, 0, 0, 0, 0);
    sends(s, 1, 0, 0, 1);
    sl_sender_rail_down(s, 0);
    says(s, EPOCH, 1, 1000); /* both came, the acknowledgements did not */
    sends_nothing(s, 1, 0);
    sends_nothing(s, 1, 1000);
    sl_sender_close(s);
}

static void what_nobody_acknowledges_is_sent_again_in_time(void **state) {
    (void)state;
    sl_sender *s = make_sender(4, 1000, 0);
    offer(s, 20, 0, 0);
    up(s, 0, EPOCH, 0, 4, 5);
    assert_true(sl_sender_deadline(s) == SL_TIME_NEVER);
    sends(s, 0, 10, 0, 0);
    sends(s, 0, 20, 0, 1);
    assert_int_equal(sl_sender_deadline(s), 110);
    sends_nothing(s, 0, 109);
    sends(s, 0, 110, 0, 0);
    sends_nothing(s, 0, 110);
    assert_int_equal(sl_sender_deadline(s), 120);
    sl_sender_acknowledge(s, EPOCH, 0, 0); /* either sending: that 1 is lost does not follow */
    assert_int_equal(sl_sender_deadline(s), 210);
    sends_nothing(s, 0, 209);
    sends(s, 0, 210, 0, 1);
    sl_sender_close(s);
}

/* A rail keeps its order: 1 after 0 means that 0 is lost; 0 while 1 waits means that 1 is only slow. */
static void a_slow_rail_is_not_sent_again_and_a_gap_is(void **state) {
    (void)state;
    sl_sender *s = make_sender(4, 1000, 0);
    offer(s, 40, 0, 0);
    up(s, 0, EPOCH, 0, 4, 0);
    for (uint32_t i = 0; i < 4; i++)
        sends(s, 0, 0, 0, i);
    sends_nothing(s, 0, 90);
    sl_sender_acknowledge(s, EPOCH, 0, 0);
    assert_int_equal(sl_sender_deadline(s), 190);
    sends_nothing(s, 0, 150);
    sl_sender_acknowledge(s, EPOCH, 0, 2);
    assert_int_equal(sl_sender_deadline(s), 100); /* of chunk 1, which has been overtaken */
    sends(s, 0, 151, 0, 1);
    sends_nothing(s, 0, 151);
    assert_int_equal(sl_sender_deadline(s), 250); /* chunk 3: heard of its rail at 150 */
    sl_sender_close(s);
}

static void an_acknowledged_chunk_is_not_sent_again(void **state) {
    (void)state;
    sl_sender *s = make_sender(4, 1000, 0);
    offer(s, 20, 0, 0);
    up(s, 0, EPOCH, 0, 4, 0);
    up(s, 1, EPOCH, 0, 4, 0);
    sends(s, 0, 0, 0, 0);
    sends(s, 0, 0, 0, 1);
    sl_sender_rail_down(s, 0);
    sl_sender_acknowledge(s, EPOCH, 0, 0); /* it waits for its second sending */
    sl_sender_acknowledge(s, EPOCH, 0, 0);
    sends(s, 1, 0, 0, 1);
    sl_sender_acknowledge(s, EPOCH, 0, 1);
    sends_nothing(s, 1, 1000);
    assert_true(sl_sender_deadline(s) == SL_TIME_NEVER);
    sl_sender_close(s);
}

static void unknown_acknowledgements_are_ignored(void **state) {
    (void)state;
    sl_sender *s = make_sender(4, 1000, 0);
    offer(s, 20, 0, 0);
    sl_sender_acknowledge(s, 0, 0, 0); /* before any receiver is known */
    up(s, 0, EPOCH, 0, 4, 0);
    sl_sender_acknowledge(s, EPOCH, 0, 2);
    sl_sender_acknowledge(s, EPOCH, 0, UINT32_MAX);
    sl_sender_acknowledge(s, EPOCH, 1, 0);
    sl_sender_acknowledge(s, EPOCH, UINT64_MAX, 0);
    sl_sender_acknowledge(s, EPOCH, 0, 0); /* of a chunk that was not sent yet */
    sl_sender_acknowledge(s, EPOCH + 1, 0, 0);
    sl_sender_release(s, 17);
    sends(s, 0, 0, 0, 0);
    sends(s, 0, 0, 0, 1);
    sl_sender_close(s);
}

static void a_restarted_receiver_gets_everything_unpublished_again(void **state) {
    (void)state;
    sl_sender *s = make_sender(4, 1000, 0);
    for (uint64_t n = 0; n < 3; n++)
        offer(s, 10, 0, n);
    up(s, 0, EPOCH, 0, 4, 0);
    for (uint64_t n = 0; n < 3; n++) {
        sends(s, 0, 0, n, 0);
        sl_sender_acknowledge(s, EPOCH, n, 0);
    }
    sends_nothing(s, 0, 0);
    sl_sender_rail_down(s, 0);
    up(s, 1, EPOCH + 1, 1, 5, 1);
    sl_sender_acknowledge(s, EPOCH, 1, 0); /* by the dead one: says nothing of this one */
    sends(s, 1, 1, 1, 0);
    sl_sender_acknowledge(s, EPOCH, 1, 0); /* still the dead one */
    sends(s, 1, 1, 2, 0);
    sl_sender_acknowledge(s, EPOCH + 1, 2, 0);
    sends_nothing(s, 1, 1);
    sl_sender_rail_down(s, 1);
    sends_nothing(s, 1, 2);
    up(s, 1, EPOCH + 1, 1, 5, 3); /* the same life: what it acknowledged counts */
    sends(s, 1, 3, 1, 0);
    sends_nothing(s, 1, 3);
    assert_int_equal(sl_sender_resent(s), 3);
    sl_sender_close(s);
}

/* Its handshake lay in a socket while the new receiver came up on another rail. */
static void a_dead_receivers_handshake_does_no_lasting_harm(void **state) {
    (void)state;
    sl_sender *s = make_sender(4, 1000, 0);
    offer(s, 10, 0, 0);
    offer(s, 10, 0, 1);
    up(s, 1, EPOCH + 1, 0, 4, 0);
    sends(s, 1, 0, 0, 0);
    up(s, 0, EPOCH, 0, 1, 0);
    sends_nothing(s, 1, 0);
    sends(s, 0, 0, 0, 0);
    sends_nothing(s, 0, 0); /* its limit is its own */
    says(s, EPOCH + 1, 0, 5);
    sends_nothing(s, 0, 0);
    sl_sender_rail_down(s, 0);
    sends(s, 1, 1, 0, 0);
    sends(s, 1, 1, 1, 0);
    says(s, EPOCH + 1, 1, 5);
    sl_conduit_state dead = {EPOCH, 0, 4};
    assert_fails(sl_sender_rail_up(s, 0, &dead, 2), SL_EPEER, "earlier life");
    sends_nothing(s, 0, 2);
    sl_sender_close(s);
}

static void nothing_is_sent_at_or_beyond_the_limit(void **state) {
    (void)state;
    sl_sender *s = make_sender(4, 1000, 0);
    for (uint64_t n = 0; n < 4; n++)
        offer(s, 10, 0, n);
    up(s, 0, EPOCH, 0, 0, 0);
    sends_nothing(s, 0, 0);
    says(s, EPOCH, 0, 2);
    sends(s, 0, 0, 0, 0);
    sends(s, 0, 0, 1, 0);
    sends_nothing(s, 0, 0);
    says(s, EPOCH, 0, 1); /* older */
    says(s, EPOCH, 1, 3);
    says(s, EPOCH, 0, 2); /* older */
    assert_int_equal(sl_sender_published(s), 1);
    sends(s, 0, 0, 2, 0);
    sends_nothing(s, 0, 0);
    sl_sender_close(s);
}

static void the_window_bounds_what_the_sender_holds(void **state) {
    (void)state;
    sl_sender *s = make_sender(2, 1000, 5);
    uint64_t number;
    offer(s, 10, 0, 5);
    offer(s, 10, 0, 6);
    assert_fails(sl_sender_offer(s, 10, 0, &number), SL_EINVAL, "window");
    up(s, 0, EPOCH, 5, 9, 0);
    sends(s, 0, 0, 5, 0);
    sl_sender_acknowledge(s, EPOCH, 5, 0); /* received is not published */
    assert_fails(sl_sender_offer(s, 10, 0, &number), SL_EINVAL, "window");
    says(s, EPOCH, 6, 9);
    offer(s, 10, 0, 7);
    sl_sender_close(s);
}

static void a_held_message_keeps_its_last_chunk_back(void **state) {
    (void)state;
    sl_sender *s = make_sender(4, 1000, 0);
    offer(s, 25, 1, 0);
    offer(s, 0, 1, 1);
    offer(s, 10, 0, 2);
    up(s, 0, EPOCH, 0, 4, 0);
    sends(s, 0, 0, 0, 0);
    sends(s, 0, 0, 0, 1);
    sends(s, 0, 0, 2, 0);
    sends_nothing(s, 0, 0);
    sl_sender_rail_down(s, 0);
    up(s, 0, EPOCH + 1, 0, 4, 0); /* held also in the receiver's next life */
    sends(s, 0, 0, 0, 0);
    sends(s, 0, 0, 0, 1);
    sends(s, 0, 0, 2, 0);
    sends_nothing(s, 0, 0);
    sl_sender_release(s, 1);
    sends(s, 0, 0, 1, 0);
    sl_sender_release(s, 0);
    sends(s, 0, 0, 0, 2);
    sends_nothing(s, 0, 0);
    sl_sender_close(s);
}

static void a_restarted_sender_goes_on_behind_what_was_published(void **state) {
    (void)state;
    sl_sender *s = make_sender(4, 1000, 10); /* 10 are done; of the queue's three the peer has two */
    for (uint64_t n = 10; n < 13; n++)
        offer(s, 10, 0, n);
    up(s, 0, EPOCH, 12, 16, 0);
    assert_int_equal(sl_sender_published(s), 12);
    sends(s, 0, 0, 12, 0);
    sends_nothing(s, 0, 0);
    sl_sender_close(s);
}

static void a_receiver_that_lies_is_an_error(void **state) {
    (void)state;
    sl_sender *s = make_sender(4, 1000, 0);
    offer(s, 10, 0, 0);
    sl_conduit_state beyond = {EPOCH, 2, 4}, backwards = {EPOCH, 1, 0};
    assert_fails(sl_sender_rail_up(s, 0, &beyond, 0), SL_EPEER, "2 messages");
    sends_nothing(s, 0, 0);
    up(s, 0, EPOCH, 0, 4, 0);
    assert_int_equal(sl_sender_state(s, &beyond), SL_EPEER);
    assert_int_equal(sl_sender_state(s, &backwards), SL_EPEER);
    assert_int_equal(sl_sender_published(s), 0);
    sends(s, 0, 0, 0, 0);
    sl_sender_close(s);
}

/* 70 messages of 70 chunks: more than one word of every bitmap, with the window passing its end. */
static void a_large_window_of_large_messages_keeps_its_order(void **state) {
    (void)state;
    sl_sender *s = make_sender(70, 1000000, 0);
    uint64_t next = 0;
    up(s, 0, EPOCH, 0, 1000, 0);
    up(s, 1, EPOCH, 0, 1000, 0);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 70; i++)
            offer(s, 700, 0, next + (uint64_t)i);
        for (uint32_t i = 0; i < 70 * 70; i++)
            sends(s, (int)i % 2, round, next + i / 70, i % 70);
        sl_sender_rail_down(s, 1);
        for (uint32_t i = 1; i < 70 * 70; i += 2)
            sends(s, 0, round, next + i / 70, i % 70);
        sends_nothing(s, 0, round);
        up(s, 1, EPOCH, next, 1000, 0);
        next += 70;
        says(s, EPOCH, next, 1000);
        assert_true(sl_sender_deadline(s) == SL_TIME_NEVER);
    }
    sl_sender_close(s);
}

/* The receiver of rail 0 allows five messages while another one, of rail 1, seems to be the latest. When that
 * is gone, all five may be sent, although nothing is said again. */
static void what_a_rail_allows_is_remembered_while_another_receiver_is_the_latest(void **state) {
    (void)state;
    sl_sender *s = make_sender(8, 1000, 0);
    for (uint64_t n = 0; n < 6; n++)
        offer(s, 10, 0, n);
    up(s, 0, EPOCH, 0, 1, 0);
    up(s, 1, EPOCH + 1, 0, 1, 0);
    says(s, EPOCH, 0, 5);
    sends(s, 1, 1, 0, 0);
    sends_nothing(s, 1, 1); /* of this one, one */
    sl_sender_rail_down(s, 1);
    for (uint64_t n = 0; n < 5; n++)
        sends(s, 0, 2, n, 0);
    sends_nothing(s, 0, 2);
    sl_sender_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_cut_into_chunks_and_an_empty_one_has_one),
        cmocka_unit_test(a_large_message_is_striped_over_two_rails),
        cmocka_unit_test(a_chunk_larger_than_a_rails_bytes_goes_alone),
        cmocka_unit_test(a_lost_rails_chunks_go_out_on_the_other_oldest_first),
        cmocka_unit_test(a_flapping_rail_loses_nothing),
        cmocka_unit_test(a_large_message_begins_anew_on_each_loss),
        cmocka_unit_test(what_is_published_is_never_sent_again),
        cmocka_unit_test(what_nobody_acknowledges_is_sent_again_in_time),
        cmocka_unit_test(a_slow_rail_is_not_sent_again_and_a_gap_is),
        cmocka_unit_test(an_acknowledged_chunk_is_not_sent_again),
        cmocka_unit_test(unknown_acknowledgements_are_ignored),
        cmocka_unit_test(a_restarted_receiver_gets_everything_unpublished_again),
        cmocka_unit_test(a_dead_receivers_handshake_does_no_lasting_harm),
        cmocka_unit_test(nothing_is_sent_at_or_beyond_the_limit),
        cmocka_unit_test(the_window_bounds_what_the_sender_holds),
        cmocka_unit_test(a_held_message_keeps_its_last_chunk_back),
        cmocka_unit_test(a_restarted_sender_goes_on_behind_what_was_published),
        cmocka_unit_test(a_receiver_that_lies_is_an_error),
        cmocka_unit_test(a_large_window_of_large_messages_keeps_its_order),
        cmocka_unit_test(what_a_rail_allows_is_remembered_while_another_receiver_is_the_latest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
