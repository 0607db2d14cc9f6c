/* Counts of messages pass 2^32, with a number of slots that does not divide it: nothing is lost or comes
 * twice. */
#include "run/message.h"

#include "base/memory.h"
#include "run/transport/hub.h"
#include "run/transport/peer.h"
#include "virtual_clock.h"

enum { SLOTS = 3 };
static const uint64_t near_wrap = UINT32_MAX - 1; /* three messages later it has been passed */

static void a_lane_keeps_every_message_beyond_2_to_the_32(void **state) {
    (void)state;
    sl_region *region;
    sl_lane_view sender, receiver;
    assert_ok(sl_region_alloc(0, 2, SLOTS, 8, "\0\1", &region));
    assert_ok(sl_lane_open(region, 1, &sender));
    assert_ok(sl_lane_open(region, 1, &receiver));
    sender.published = receiver.drained = near_wrap;
    sender.lane->published = near_wrap;
    for (uint32_t i = 0; i < SLOTS; i++) {
        int32_t slot = sl_lane_claim(&sender);
        assert_true(slot >= 0);
        sl_lane_slot(&sender, (uint32_t)slot)->index = i;
        sl_lane_publish(&sender, slot, 0);
    }
    assert_ok(sl_lane_drain(&receiver));
    assert_int_equal(receiver.waitings, SLOTS);
    for (uint32_t i = 0; i < SLOTS; i++) {
        assert_int_equal(sl_lane_find(&receiver, 0, i), 0); /* each once: the next one moves up */
        sl_lane_free(&receiver, 0);
    }
    sl_lane_close(&sender);
    sl_lane_close(&receiver);
    sl_free(region);
}

/* All are handed over before the first is published, and published before the first is taken. */
static void a_transport_delivers_every_message_beyond_2_to_the_32(void **state) {
    (void)state;
    sl_clock *clock;
    sl_transport_hub *hub;
    sl_transport *t[2];
    uint64_t out[SLOTS] = {11, 22, 33}, in[SLOTS] = {0};
    assert_ok(sl_clock_open_virtual(1, &clock));
    assert_ok(sl_transport_hub_open(2, sizeof *out, SLOTS, &hub));
    for (int r = 0; r < 2; r++) {
        sl_transport_config config = {.rank = r, .ranks = 2, .clock = clock, .hub = hub};
        assert_ok(sl_transport_open(&config, -1, SL_SECOND, &t[r]));
    }
    sl_clock_sleep_until(clock, SL_MS); /* its time has come: both communication threads sleep */
    sl_peer *to = &t[0]->peer[1], *from = &t[1]->peer[0];
    to->handed = to->published = near_wrap;
    to->out.published = from->in.drained = near_wrap;
    to->out.lane->published = near_wrap;
    sl_transport_emulate(t[0], 1, (sl_link_emulation){.latency = 10 * SL_MS});
    for (uint32_t i = 0; i < SLOTS; i++) {
        assert_ok(sl_transport_receive(t[1], 0, 0, i, &in[i], sizeof *in));
        assert_ok(sl_transport_send(t[0], 1, 0, i, &out[i], sizeof *out, SL_MS));
    }
    sl_clock_sleep_until(clock, 20 * SL_MS);
    for (uint32_t i = 0; i < SLOTS; i++) {
        assert_ok(sl_transport_wait(t[1], 0, 0, i, SL_SECOND, NULL));
        assert_ok(sl_transport_wait_sent(t[0], 1, 0, i, SL_SECOND, NULL));
        assert_int_equal(in[i], out[i]);
    }
    sl_transport_close(t[0]);
    sl_transport_close(t[1]);
    sl_transport_hub_close(hub);
    sl_clock_leave(clock);
    sl_clock_close(clock);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lane_keeps_every_message_beyond_2_to_the_32),
        cmocka_unit_test(a_transport_delivers_every_message_beyond_2_to_the_32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
