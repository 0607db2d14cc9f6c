/* Wires and the test of a link, over loopback between two threads. Rates are compared with each other only.
 */
#include "base/clock.h"
#include "check.h"
#include "notice/validate/link_test.h"
#include "notice/validate/wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define TOKEN UINT64_C(0x1234567890abcdef)

static sl_time in(sl_time time) {
    return sl_clock_now(sl_clock_real()) + time;
}

typedef struct end {
    int file, first;
    sl_link_sample sample;
} end;

static void *test_one(void *argument) {
    end *e = argument;
    sl_link_test(&e->file, e->first, SL_LINK_LIMIT, &e->sample);
    return NULL;
}

/* A wire over loopback, through a listener. */
static void connect_both(end both[2]) {
    sl_wire_address here;
    char why[96];
    int listener, link = -1;
    assert_ok(sl_wire_listen(NULL, &here, &listener));
    sl_wire_connect(&here, &here, 1, TOKEN, 17, in(SL_SECOND), &both[0].file, why, sizeof why);
    if (both[0].file < 0)
        fail_msg("no wire: %s", why);
    both[1].file = sl_wire_accept(listener, TOKEN, in(SL_SECOND), &link);
    assert_true(both[1].file >= 0);
    assert_int_equal(link, 17);
    close(listener);
    both[0].first = 1;
    both[1].first = 0;
}

static void both_ends_measure_their_direction_again_and_again(void **state) {
    (void)state;
    end both[2];
    connect_both(both);
    for (int repeat = 0; repeat < 3; repeat++) {
        pthread_t other;
        assert_int_equal(pthread_create(&other, NULL, test_one, &both[1]), 0);
        test_one(&both[0]);
        pthread_join(other, NULL);
        for (int i = 0; i < 2; i++) {
            assert_true(both[i].file >= 0);
            assert_true(both[i].sample.gb_per_s > 0);
            assert_true(both[i].sample.latency_ms > 0);
            assert_false(both[i].sample.limited);
        }
    }
    sl_link_evidence before, evidence;
    sl_link_evidence_begin(both[0].file, &before);
    sl_link_evidence_end(both[0].file, &before, &evidence);
    assert_string_equal(evidence.interface, "lo");
    assert_int_equal(evidence.errors, 0);
    assert_int_equal(evidence.resent, 0);
    close(both[0].file);
    close(both[1].file);
}

static void an_end_that_goes_away_ends_the_test(void **state) {
    (void)state;
    end both[2];
    connect_both(both);
    close(both[1].file);
    test_one(&both[0]);
    assert_int_equal(both[0].file, -1);
    assert_true(both[0].sample.gb_per_s < 0);
}

static void an_end_that_says_nothing_ends_the_test_in_time(void **state) {
    (void)state;
    end both[2];
    connect_both(both);
    sl_time begin = in(0);
    test_one(&both[0]); /* nobody answers: the wire is held open */
    assert_int_equal(both[0].file, -1);
    assert_true(in(0) - begin < 10 * SL_LINK_LIMITS * SL_LINK_LIMIT);
    close(both[1].file);
}

static void a_stranger_at_the_listener_is_nobody(void **state) {
    (void)state;
    sl_wire_address here;
    char why[96];
    int listener, link = -1, stranger, friend;
    assert_ok(sl_wire_listen(NULL, &here, &listener));
    sl_wire_connect(&here, &here, 1, TOKEN + 1, 3, in(SL_SECOND), &stranger, why, sizeof why);
    sl_wire_connect(&here, &here, 1, TOKEN, 4, in(SL_SECOND), &friend, why, sizeof why);
    assert_true(stranger >= 0 && friend >= 0);
    int accepted = sl_wire_accept(listener, TOKEN, in(SL_SECOND), &link);
    assert_true(accepted >= 0);
    assert_int_equal(link, 4);
    assert_int_equal(sl_wire_accept(listener, TOKEN, in(50 * SL_MS), &link), -1);
    close(stranger);
    close(friend);
    close(accepted);
    close(listener);
}

static void an_address_where_nobody_listens_is_told(void **state) {
    (void)state;
    sl_wire_address here, peer;
    char why[96];
    int listener, other, file;
    assert_ok(sl_wire_listen(NULL, &here, &listener));
    assert_ok(sl_wire_listen("127.0.0.1", &peer, &other));
    close(other);
    sl_wire_connect(&here, &peer, 1, TOKEN, 0, in(SL_SECOND), &file, why, sizeof why);
    assert_int_equal(file, -1);
    assert_says(why, "127.0.0.1");
    assert_non_null(strstr(why, strerror(ECONNREFUSED)));
    assert_fails(sl_wire_listen("not.an.address", &peer, &other), SL_EINVAL, "not.an.address");
    close(listener);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_measure_their_direction_again_and_again),
        cmocka_unit_test(an_end_that_goes_away_ends_the_test),
        cmocka_unit_test(an_end_that_says_nothing_ends_the_test_in_time),
        cmocka_unit_test(a_stranger_at_the_listener_is_nobody),
        cmocka_unit_test(an_address_where_nobody_listens_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
