/* How endpoints begin and end, and whom they let in, quickly: few messages, each end replaced once, losses
 * with their reasons. test_endpoint.c carries more. */
#include "check.h"
#include "run/rail/conveyance.h"
#include "run/rail/proxy.h"

#include <sys/stat.h>

/* ---- few messages */

typedef struct replacing {
    int end, done; /* which end is replaced, once, as soon as something has been taken */
} replacing;

static sl_status replace_once(conveyance *v) {
    replacing *r = v->object;
    if (r->end >= 0 && !r->done && v->taken > 0) {
        r->done = 1;
        reopen_endpoint(v, r->end);
    }
    return SL_OK;
}

/* `address`, and a unix socket; `end`: which is replaced on the way, -1: none. */
static void few_messages_cross(const char *address, int end, sl_time due_in, int own_clock) {
    conveyance v;
    replacing r = {.end = end};
    begin(&v, 30, 4, 100000);
    v.config[0].silence = v.config[1].silence = 10 * SL_SECOND; /* a busy machine is not what breaks here */
    v.config[0].own_clock = v.config[1].own_clock = own_clock;
    v.due_in = due_in;
    v.step = replace_once;
    v.object = &r;
    add_rail(&v, address);
    add_rail(&v, NULL);
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    carry(&v);
    must_have_carried_all(&v);
    assert_int_equal(r.done, end >= 0);
    for (int rail = 0; rail < 2 && end < 0; rail++)
        assert_int_equal(v.heard[0].rail_ups[rail] + v.heard[1].rail_ups[rail], 2); /* each once */
    for (uint64_t n = v.count - 4; n < v.count && due_in; n++)
        assert_true(sl_queue_slot(&v.view[0], n)->arrived >= sl_queue_slot(&v.view[0], n)->due);
    finish(&v);
}

static void a_few_messages_cross_two_rails(void **state) {
    (void)state;
    few_messages_cross("127.0.0.1", -1, 0, 0);
    few_messages_cross(NULL, -1, 2 * SL_MS, 0);
    few_messages_cross("127.0.0.1", -1, 2 * SL_MS, 1);
}

static void either_end_may_be_replaced_on_the_way(void **state) {
    (void)state;
    for (int end = 0; end < 2; end++)
        few_messages_cross("127.0.0.1", end, 0, 0);
}

/* Its times survive in the places: the sender learns each, although the receiver that published is gone. */
static sl_status replace_before_it_tells(conveyance *v) {
    int *done = v->object;
    if (!*done && v->taken == v->count) {
        *done = 1;
        reopen_endpoint(v, 1);
    }
    return SL_OK;
}

static void times_of_arrival_outlive_the_endpoint_that_took_them(void **state) {
    (void)state;
    conveyance v;
    int replaced = 0;
    begin(&v, 4, 8, 1000);
    v.step = replace_before_it_tells;
    v.object = &replaced;
    add_rail(&v, NULL);
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    carry(&v);
    must_have_carried_all(&v);
    for (uint64_t n = 0; n < 4; n++)
        assert_int_equal(sl_queue_slot(&v.view[0], n)->arrived, sl_queue_slot(&v.view[1], n)->arrived);
    finish(&v);
}

/* ---- loss */

static sl_status stop_when_lost(conveyance *v) {
    if (v->heard[0].count[SL_HAPPENED_LOST] || v->heard[1].count[SL_HAPPENED_LOST])
        sl_loop_stop(v->loop);
    return SL_OK;
}

static void an_outage_beyond_the_limit_ends_the_conduit_with_its_reason(void **state) {
    (void)state;
    conveyance v;
    begin(&v, 1, 2, 100);
    v.step = stop_when_lost;
    v.config[0].outage = 100 * SL_MS;
    add_rail(&v, NULL);
    add_rail(&v, "127.0.0.1");
    for (int r = 0; r < 2; r++)
        shutdown(v.config[1].listening[r], SHUT_RDWR);
    sl_time before = sl_clock_now(sl_clock_real());
    open_endpoint(&v, 0);
    carry(&v);
    assert_true(sl_clock_now(sl_clock_real()) - before >= 100 * SL_MS);
    assert_int_equal(v.heard[0].count[SL_HAPPENED_LOST], 1);
    assert_int_equal(atomic_load(&v.memory[0]->lost), 1);
    assert_says(v.memory[0]->reason, "all 2 rails down for 0.1 s (last: ");
    assert_says(v.memory[0]->reason, "Connection refused");
    finish(&v);
}

static void a_receiver_that_nobody_connects_to_is_lost_too(void **state) {
    (void)state;
    conveyance v;
    begin(&v, 1, 2, 100);
    add_rail(&v, NULL);
    v.config[1].outage = 100 * SL_MS;
    v.step = stop_when_lost;
    open_endpoint(&v, 1);
    assert_ok(sl_loop_at(v.loop, 0, tick, &v, NULL));
    assert_ok(sl_loop_run(v.loop));
    assert_says(v.memory[1]->reason, "0.1");
    finish(&v);
}

static void when_nobody_listens_any_more_the_sender_need_not_wait_for_the_outage(void **state) {
    (void)state;
    conveyance v;
    begin(&v, 1, 2, 100);
    v.step = stop_when_lost;
    v.config[0].refusal = 60 * SL_MS;
    add_rail(&v, "127.0.0.1");
    shutdown(v.config[1].listening[0], SHUT_RDWR);
    open_endpoint(&v, 0);
    carry(&v);
    assert_says(v.memory[0]->reason, "rank 5 may have died");
    finish(&v);
}

static sl_status stop_at_goodbye(conveyance *v) {
    if (v->heard[1].count[SL_HAPPENED_RAIL_DOWN])
        sl_loop_stop(v->loop);
    return SL_OK;
}

static void an_endpoint_that_is_closed_says_goodbye(void **state) {
    (void)state;
    conveyance v;
    begin(&v, 3, 2, 100);
    add_rail(&v, "127.0.0.1");
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    carry(&v);
    sl_endpoint_close(v.endpoint[0]);
    v.endpoint[0] = NULL;
    v.count++; /* never made: the loop ends with the word */
    v.made = v.count;
    v.step = stop_at_goodbye;
    assert_ok(sl_loop_run(v.loop));
    assert_int_equal(v.heard[1].count[SL_HAPPENED_GOODBYE], 1);
    assert_says(v.heard[1].last[SL_HAPPENED_RAIL_DOWN], "127.0.0.1: closed in good order");
    finish(&v);
}

/* ---- strangers */

static sl_status stop_at_stranger(conveyance *v) {
    if (v->heard[1].count[SL_HAPPENED_STRANGER])
        sl_loop_stop(v->loop);
    return SL_OK;
}

/* What a listener in the middle has recorded of a good connection opens no second one. */
static void a_recorded_handshake_opens_nothing(void **state) {
    (void)state;
    conveyance v;
    proxy middle;
    begin(&v, 20, 64, 1000);
    add_rail(&v, "127.0.0.1");
    proxy_start(&middle, v.config[1].rail[0].port);
    v.config[0].rail[0].port = middle.port;
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    carry(&v);
    must_have_carried_all(&v);
    assert_int_equal(v.heard[1].count[SL_HAPPENED_STRANGER], 0);
    assert_true(atomic_load(&middle.recorded_bytes) > 300); /* handshake and more */
    int again = connect_to_port(v.config[1].rail[0].port);
    assert_true(again >= 0);
    assert_true(send(again, middle.recorded, atomic_load(&middle.recorded_bytes), MSG_NOSIGNAL) > 0);
    v.step = stop_at_stranger;
    v.count = 30; /* the transfer goes on meanwhile */
    assert_ok(sl_loop_run(v.loop));
    v.step = NULL;
    assert_ok(sl_loop_run(v.loop));
    must_have_carried_all(&v);
    assert_int_equal(v.heard[1].rail_ups[0], 1);
    assert_says(v.heard[1].last[SL_HAPPENED_STRANGER], "does not know the run's key");
    close(again);
    finish(&v);
    proxy_end(&middle);
}

static void another_key_is_refused(void **state) {
    (void)state;
    conveyance v;
    begin(&v, 1, 2, 100);
    add_rail(&v, "127.0.0.1");
    v.config[0].key[31] ^= 1;
    v.config[0].outage = 150 * SL_MS;
    v.step = stop_when_lost;
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    carry(&v);
    assert_int_equal(v.heard[0].count[SL_HAPPENED_RAIL_UP] + v.heard[1].count[SL_HAPPENED_RAIL_UP], 0);
    assert_true(v.heard[1].count[SL_HAPPENED_STRANGER] >= 1);
    assert_says(v.heard[1].last[SL_HAPPENED_STRANGER], "does not know the run's key");
    assert_true(*v.memory[0]->reason);
    finish(&v);
}

/* ---- listening */

static void a_unix_rail_belongs_to_its_user_alone(void **state) {
    (void)state;
    conveyance v;
    struct stat seen;
    begin(&v, 0, 1, 1);
    add_rail(&v, NULL);
    assert_int_equal(stat(v.config[1].rail[0].address, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0600);
    finish(&v);
}

static void listening_fails_with_the_address_in_the_text(void **state) {
    (void)state;
    sl_rail_address at = {.address = "nonsense"};
    int made;
    assert_fails(sl_rail_listen(&at, &made), SL_EINVAL, "nonsense");
    at = (sl_rail_address){.address = "192.0.2.1"}; /* reserved, nobody's */
    assert_fails(sl_rail_listen(&at, &made), SL_ESYS, "192.0.2.1");
    at = (sl_rail_address){.address = "127.0.0.1", .interface = "nonsense0"};
    assert_fails(sl_rail_listen(&at, &made), SL_ESYS, "nonsense0");
    at = (sl_rail_address){.kind = SL_RAIL_UNIX, .address = "/nowhere/at/all"};
    assert_fails(sl_rail_listen(&at, &made), SL_ESYS, "/nowhere/at/all");
    assert_int_equal(made, -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_few_messages_cross_two_rails),
        cmocka_unit_test(either_end_may_be_replaced_on_the_way),
        cmocka_unit_test(times_of_arrival_outlive_the_endpoint_that_took_them),
        cmocka_unit_test(an_outage_beyond_the_limit_ends_the_conduit_with_its_reason),
        cmocka_unit_test(a_receiver_that_nobody_connects_to_is_lost_too),
        cmocka_unit_test(when_nobody_listens_any_more_the_sender_need_not_wait_for_the_outage),
        cmocka_unit_test(an_endpoint_that_is_closed_says_goodbye),
        cmocka_unit_test(a_recorded_handshake_opens_nothing),
        cmocka_unit_test(another_key_is_refused),
        cmocka_unit_test(a_unix_rail_belongs_to_its_user_alone),
        cmocka_unit_test(listening_fails_with_the_address_in_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
