/* The order of a delegate: what is refused, and the news that it tells. */
#include "check.h"

#include "run/transport/delegate.h"

#include <stdlib.h>

static sl_delegate_order right(void) {
    sl_delegate_order o = {.magic = SL_DELEGATE_MAGIC,
                           .version = SL_DELEGATE_VERSION,
                           .parent = 100,
                           .sends = 1,
                           .from = 0,
                           .to = 1,
                           .rails = 2,
                           .rail = {{.kind = SL_RAIL_UNIX, .address = "/dev/shm/x"},
                                    {.kind = SL_RAIL_TCP, .address = "127.0.0.1", .port = 5}}};
    return o;
}

static void an_order_that_makes_no_sense_is_refused(void **state) {
    (void)state;
    size_t bytes = SL_DELEGATE_QUEUE + 4096;
    sl_delegate_order o = right();
    assert_ok(sl_delegate_check(&o, bytes));
    assert_fails(sl_delegate_check(&o, SL_DELEGATE_QUEUE), SL_EPEER, "hold no order");
#define REFUSED(change, words)                                                                               \
    do {                                                                                                     \
        o = right();                                                                                         \
        change;                                                                                              \
        assert_fails(sl_delegate_check(&o, bytes), SL_EPEER, words);                                         \
    } while (0)
    REFUSED(o.magic++, "hold no order");
    REFUSED(o.version = 9, "version 9");
    REFUSED(o.to = 0, "names no link");
    REFUSED(o.from = -1, "names no link");
    REFUSED(o.sends = 2, "names no link");
    REFUSED(o.number = -1, "names no link");
    REFUSED(o.parent = 1, "names no link");
    REFUSED(o.rails = 0, "0 rails");
    REFUSED(o.rails = SL_RAILS_MAX + 1, "9 rails");
    REFUSED(o.chunk_bytes = UINT32_MAX, "limits");
    REFUSED(o.silence = -1, "limits");
    REFUSED(o.scheduling = 77, "limits");
    REFUSED(o.rails = 3, "rail 2");
    REFUSED(o.rail[1].kind = (sl_rail_kind)5, "rail 1");
    REFUSED(memset(o.rail[0].address, 'a', sizeof o.rail[0].address), "rail 0");
    REFUSED(memset(o.rail[0].interface, 'a', sizeof o.rail[0].interface), "rail 0");
    REFUSED(memset(o.rail[0].source, 'a', sizeof o.rail[0].source), "rail 0");
}

static void news_come_in_order_and_what_has_no_room_is_counted(void **state) {
    (void)state;
    sl_delegate_order *o = calloc(1, sizeof *o);
    sl_delegate_event happened;
    char text[300];
    assert_non_null(o);
    assert_int_equal(sl_delegate_hear(o, &happened), 0);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < (int)SL_DELEGATE_EVENT + 5; i++)
            sl_delegate_report(o, SL_HAPPENED_RAIL_DOWN, i, i == 0 ? text : "silence");
        assert_int_equal(atomic_load(&o->dropped), 5 * (round + 1));
        for (int i = 0; i < (int)SL_DELEGATE_EVENT; i++) {
            assert_int_equal(sl_delegate_hear(o, &happened), 1);
            assert_int_equal(happened.happened, SL_HAPPENED_RAIL_DOWN);
            assert_int_equal(happened.rail, i);
            assert_int_equal(strlen(happened.text), i == 0 ? sizeof happened.text - 1 : strlen("silence"));
        }
        assert_int_equal(sl_delegate_hear(o, &happened), 0);
    }
    free(o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_that_makes_no_sense_is_refused),
        cmocka_unit_test(news_come_in_order_and_what_has_no_room_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
