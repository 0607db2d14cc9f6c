/* Both sides: what no conduit can be, want of memory, and a perfect network. */
#include "conduit_calls.h"

#include "base/memory.h"

static void an_impossible_conduit_is_refused(void **state) {
    (void)state;
    sl_sender *s;
    sl_receiver *r;
    const sl_sender_config wrong[] = {{0, 10, 10, 1, 0}, {1, 0, 10, 1, 0}, {1, 10, 10, 0, 0}};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sl_sender_open(&wrong[i], &s), SL_EINVAL);
    const sl_receiver_config bad[] = {{0, 10, 10, 0}, {1, 0, 10, 0}, {1, 1, UINT64_MAX, 0}};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sl_receiver_open(&bad[i], &r), SL_EINVAL);
    uint64_t number;
    s = make_sender(1, 10, 0);
    assert_int_equal(sl_sender_offer(s, UINT64_MAX, 0, &number), SL_EINVAL);
    offer(s, 10, 0, 0);
    sl_sender_close(s);
    sl_sender_close(NULL);
    sl_receiver_close(NULL);
}

static void want_of_memory_is_an_error_and_changes_nothing(void **state) {
    (void)state;
    sl_sender_config config = {4, 10, 100, RESEND, 0};
    sl_receiver_config other = {4, 10, 100, 0};
    sl_sender *s;
    sl_receiver *r;
    for (long n = 0; n < 3; n++) {
        sl_alloc_fail_at(n);
        assert_int_equal(sl_sender_open(&config, &s), SL_ENOMEM);
        sl_alloc_fail_at(n);
        assert_int_equal(sl_receiver_open(&other, &r), SL_ENOMEM);
    }
    sl_alloc_fail_at(-1);
    s = make_sender(4, 100, 0);
    for (long n = 0; n < 2; n++) {
        uint64_t number;
        sl_alloc_fail_at(n);
        assert_int_equal(sl_sender_offer(s, 100, 0, &number), SL_ENOMEM);
    }
    sl_alloc_fail_at(-1);
    offer(s, 100, 0, 0);
    sl_sender_close(s);
}

/* A receiver behind a perfect network: nothing is sent twice, nothing waits for a timer. */
static void without_trouble_each_chunk_is_sent_once(void **state) {
    (void)state;
    sl_sender *s = make_sender(3, 30, 0);
    sl_receiver *r = make_receiver(3, 0);
    sl_conduit_state said = sl_receiver_state(r, EPOCH);
    for (int rail = 0; rail < 2; rail++)
        assert_ok(sl_sender_rail_up(s, rail, &said, 0));
    uint64_t offered = 0, published = 0, chunks = 0, total;
    sl_chunk chunk;
    while (published < 500) {
        while (offered < 500 && offered - sl_sender_published(s) < 3) {
            offer(s, offered * 7 % 45, 0, offered);
            offered++;
        }
        for (int rail = 0; rail < 2; rail++)
            while (sl_sender_next(s, rail, 1, &chunk)) {
                takes(r, rail, chunk);
                sl_sender_acknowledge(s, EPOCH, chunk.message, chunk.index);
                chunks++;
            }
        while (sl_receiver_complete(r, &total)) {
            publishes(r, published * 7 % 45);
            sl_receiver_allow(r, ++published + 3);
        }
        said = sl_receiver_state(r, EPOCH);
        assert_ok(sl_sender_state(s, &said));
    }
    uint64_t expected = 0; /* ceil(bytes / 10), at least 1 */
    for (uint64_t n = 0; n < 500; n++)
        expected += n * 7 % 45 ? (n * 7 % 45 + 9) / 10 : 1;
    assert_int_equal(chunks, expected);
    assert_int_equal(sl_sender_resent(s), 0);
    sl_sender_close(s);
    sl_receiver_close(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_impossible_conduit_is_refused),
        cmocka_unit_test(want_of_memory_is_an_error_and_changes_nothing),
        cmocka_unit_test(without_trouble_each_chunk_is_sent_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
