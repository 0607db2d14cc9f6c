/* labels: long alone */
/* Endpoints over real sockets: what is put at one end comes out at the other, once, in order and bit by bit,
 * whatever kind of rails they have and whoever else knocks. */
#include "check.h"
#include "run/rail/conveyance.h"
#include "run/rail/proxy.h"

#include <netinet/in.h>

static void everything_arrives(const char *const *addresses, int rails, uint64_t count, uint32_t slots,
                               size_t largest) {
    conveyance v;
    begin(&v, count, slots, largest);
    v.config[0].silence = v.config[1].silence = 10 * SL_SECOND; /* a busy machine is not what breaks here */
    for (int r = 0; r < rails; r++)
        add_rail(&v, addresses[r]);
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    carry(&v);
    must_have_carried_all(&v);
    for (int r = 0; r < rails; r++)
        assert_int_equal(v.heard[0].rail_ups[r], 1); /* each once: nothing broke on the way */
    assert_int_equal(v.heard[0].count[SL_HAPPENED_RAIL_DOWN] + v.heard[1].count[SL_HAPPENED_RAIL_DOWN], 0);
    finish(&v);
}

static void messages_of_any_size_cross_a_unix_socket(void **state) {
    (void)state;
    const char *one[] = {NULL};
    everything_arrives(one, 1, 1000, 8, 700000);
}

static void messages_of_any_size_cross_tcp_on_ipv4(void **state) {
    (void)state;
    const char *one[] = {"127.0.0.1"};
    everything_arrives(one, 1, 1000, 8, 700000);
}

static void messages_of_any_size_cross_tcp_on_ipv6(void **state) {
    (void)state;
    const char *one[] = {"::1"};
    int made = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int usable = made >= 0 && bind(made, (struct sockaddr *)&loopback, sizeof loopback) == 0;
    if (made >= 0)
        close(made);
    if (!usable) {
        printf("skipped: no IPv6 loopback here\n");
        skip();
    }
    everything_arrives(one, 1, 300, 8, 700000);
}

static void messages_are_striped_over_rails_of_both_kinds(void **state) {
    (void)state;
    const char *four[] = {"127.0.0.1", NULL, "127.0.0.1", NULL};
    everything_arrives(four, 4, 500, 4, 3000000);
}

static void a_message_of_40_mb_is_no_special_case(void **state) {
    (void)state;
    const char *two[] = {NULL, "127.0.0.1"};
    everything_arrives(two, 2, 6, 2, 40u << 20);
}

static void one_place_is_enough(void **state) {
    (void)state;
    const char *two[] = {NULL, "127.0.0.1"};
    everything_arrives(two, 2, 300, 1, 600000);
}

/* ---- bounds */

static sl_status pause_for_a_while(conveyance *v) {
    sl_time *until = v->object, now = sl_clock_now(sl_clock_real());
    if (*until == 0)
        *until = now + 300 * SL_MS;
    v->paused = now < *until;
    if (v->paused)
        assert_true(atomic_load(&v->memory[1]->put) <= 3);
    return SL_OK;
}

static void a_sender_that_runs_ahead_waits_for_places(void **state) {
    (void)state;
    conveyance v;
    sl_time until = 0;
    begin(&v, 100, 3, 500000);
    v.step = pause_for_a_while;
    v.object = &until;
    add_rail(&v, NULL);
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    carry(&v);
    must_have_carried_all(&v);
    assert_int_equal(v.heard[0].count[SL_HAPPENED_RAIL_DOWN], 0);
    finish(&v);
}

/* ---- time */

static sl_status compare_with_due(conveyance *v) {
    uint64_t *checked = v->object;
    for (; *checked < atomic_load(&v->memory[0]->done); ++*checked) {
        const sl_slot_header *place = sl_queue_slot(&v->view[0], *checked);
        assert_true(place->arrived >= place->due);
        assert_true(place->arrived <= sl_clock_now(sl_clock_real()));
    }
    return SL_OK;
}

static void nothing_arrives_before_it_is_due(int own_clock) {
    conveyance v;
    uint64_t checked = 0;
    begin(&v, 60, 4, 700000);
    v.due_in = 20 * SL_MS;
    v.step = compare_with_due;
    v.object = &checked;
    v.config[0].own_clock = v.config[1].own_clock = own_clock;
    add_rail(&v, NULL);
    add_rail(&v, "127.0.0.1");
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    carry(&v);
    must_have_carried_all(&v);
    assert_true(checked > 50); /* the last ones are finished after the last step */
    finish(&v);
}

static void the_receiver_publishes_at_the_due_time_of_a_shared_clock(void **state) {
    (void)state;
    nothing_arrives_before_it_is_due(0);
}

static void without_a_shared_clock_the_sender_holds_back_until_due(void **state) {
    (void)state;
    nothing_arrives_before_it_is_due(1);
}

/* ---- successors */

static sl_status replace_now_and_then(conveyance *v) {
    uint64_t *random = v->object;
    uint64_t what = random_next(random) % 60;
    if (what < 2)
        reopen_endpoint(v, (int)what);
    return SL_OK;
}

static void an_endpoint_that_is_replaced_in_mid_transfer_loses_and_doubles_nothing(void **state) {
    (void)state;
    conveyance v;
    begin(&v, 400, 5, 2000000);
    uint64_t random = v.seed;
    v.step = replace_now_and_then;
    v.object = &random;
    add_rail(&v, NULL);
    add_rail(&v, "127.0.0.1");
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    carry(&v);
    must_have_carried_all(&v);
    assert_true(v.heard[0].rail_ups[0] > 1);
    finish(&v);
}

/* ---- absence */

static sl_status be_away_then_listen(conveyance *v) {
    if (v->endpoint[1])
        return SL_OK;
    sl_clock_sleep_until(sl_clock_real(), sl_clock_now(sl_clock_real()) + 2500 * SL_MS);
    open_endpoint(v, 1);
    return SL_OK;
}

/* A machine that is held up for longer than the limit: when it wakes, rails are tried before they are missed.
 */
static void time_in_which_nothing_could_be_tried_is_no_outage(void **state) {
    (void)state;
    conveyance v;
    begin(&v, 5, 2, 1000);
    v.step = be_away_then_listen;
    v.config[0].outage = v.config[1].outage = 1500 * SL_MS;
    add_rail(&v, "127.0.0.1");
    open_endpoint(&v, 0);
    carry(&v);
    must_have_carried_all(&v);
    assert_int_equal(v.heard[0].count[SL_HAPPENED_LOST], 0);
    finish(&v);
}

/* ---- strangers */

typedef struct crowd {
    int socket[200];
    int count;
    uint16_t port;
    sl_time started;
    const uint8_t *words;
    size_t bytes;
} crowd;

static sl_status throng(conveyance *v) {
    crowd *c = v->object;
    for (int i = 0; i < 10 && c->count < 200; i++) {
        int made = connect_to_port(c->port);
        assert_true(made >= 0);
        if (c->count % 2)
            assert_true(send(made, c->words, c->bytes, MSG_NOSIGNAL) >= 0);
        c->socket[c->count++] = made;
    }
    return SL_OK;
}

static void leave(crowd *c) {
    for (int i = 0; i < c->count; i++)
        close(c->socket[i]);
}

/* 200 of them, silent and talkative ones, more than there are places for, while messages are carried. */
static void strangers_do_not_disturb_a_transfer_and_are_told(void **state) {
    (void)state;
    static const uint8_t garbage[200] = "GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: a scanner\r\n\r\n";
    static crowd c;
    conveyance v;
    begin(&v, 600, 4, 500000);
    add_rail(&v, "127.0.0.1");
    c = (crowd){.port = v.config[1].rail[0].port, .words = garbage, .bytes = sizeof garbage};
    v.step = throng;
    v.object = &c;
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    carry(&v);
    must_have_carried_all(&v);
    assert_int_equal(v.heard[0].count[SL_HAPPENED_RAIL_DOWN], 0);
    assert_true(v.heard[1].count[SL_HAPPENED_STRANGER] >= 1);
    assert_true(v.heard[1].count[SL_HAPPENED_STRANGER] < 20); /* lines, not one each */
    assert_says(v.heard[1].last[SL_HAPPENED_STRANGER], "127.0.0.1 port ");
    leave(&c);
    finish(&v);
}

static sl_status until_dropped(conveyance *v) {
    crowd *c = v->object;
    if (!c->started)
        c->started = sl_clock_now(sl_clock_real());
    if (v->heard[1].count[SL_HAPPENED_STRANGER])
        sl_loop_stop(v->loop);
    return SL_OK;
}

static void who_is_silent_at_the_listener_has_two_seconds(void **state) {
    (void)state;
    static crowd c;
    conveyance v;
    begin(&v, 1, 2, 100);
    add_rail(&v, "127.0.0.1");
    c = (crowd){.port = v.config[1].rail[0].port, .count = 1};
    c.socket[0] = connect_to_port(c.port);
    v.step = until_dropped;
    v.object = &c;
    open_endpoint(&v, 1);
    carry(&v);
    assert_true(sl_clock_now(sl_clock_real()) - c.started >= 1900 * SL_MS);
    assert_non_null(strstr(v.heard[1].last[SL_HAPPENED_STRANGER], "silent"));
    leave(&c);
    finish(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_any_size_cross_a_unix_socket),
        cmocka_unit_test(messages_of_any_size_cross_tcp_on_ipv4),
        cmocka_unit_test(messages_of_any_size_cross_tcp_on_ipv6),
        cmocka_unit_test(messages_are_striped_over_rails_of_both_kinds),
        cmocka_unit_test(a_message_of_40_mb_is_no_special_case),
        cmocka_unit_test(one_place_is_enough),
        cmocka_unit_test(a_sender_that_runs_ahead_waits_for_places),
        cmocka_unit_test(the_receiver_publishes_at_the_due_time_of_a_shared_clock),
        cmocka_unit_test(without_a_shared_clock_the_sender_holds_back_until_due),
        cmocka_unit_test(an_endpoint_that_is_replaced_in_mid_transfer_loses_and_doubles_nothing),
        cmocka_unit_test(time_in_which_nothing_could_be_tried_is_no_outage),
        cmocka_unit_test(strangers_do_not_disturb_a_transfer_and_are_told),
        cmocka_unit_test(who_is_silent_at_the_listener_has_two_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
