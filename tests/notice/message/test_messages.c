/* What passes through the store: packed on one side, the same on the other, and nothing else believed. */
#include "base/memory.h"
#include "check.h"
#include "notice/message/messages.h"

#include <stdlib.h>
#include <string.h>

static void views_are_the_same_on_the_other_side(void **state) {
    (void)state;
    sl_gate *gate = calloc(1, sizeof *gate);
    sl_gate_view *view = calloc(1, sizeof *view), *again = calloc(1, sizeof *again);
    sl_gate_caller caller;
    char *bytes = NULL;
    size_t capacity = 0, size;
    sl_gate_init(gate, 7);
    for (int i = 0; i < 20; i++) {
        sl_channel_key key = {.communicator = UINT64_MAX - (uint64_t)i,
                              .source = i,
                              .destination = 7,
                              .tag = -1,
                              .kind = SL_CHANNEL_POINT};
        assert_non_null(sl_gate_channel_of(gate, &key));
    }
    sl_gate_join(&caller, gate, NULL);
    sl_gate_announce(&caller, &gate->channel[3]);
    sl_gate_need(&caller, &gate->channel[5], 9);
    sl_gate_pass(&caller, SL_GATE_BLOCK); /* inside, with two entries */
    sl_gate_look(gate, view);
    assert_int_equal(view->thread[0].entries, 2);
    assert_ok(sl_view_pack(view, &bytes, &capacity, &size));
    assert_int_equal(sl_view_unpack(bytes, size, again), 0);
    assert_int_equal(again->rank, 7);
    assert_int_equal(again->channels, 20);
    assert_int_equal(again->channel[19].key.communicator, UINT64_MAX - 19);
    assert_int_equal(again->channel[3].announced, 1);
    assert_int_equal(again->thread[0].state, SL_GATE_INSIDE);
    assert_memory_equal(again->thread[0].entry, view->thread[0].entry, 2 * sizeof view->thread[0].entry[0]);
    for (size_t less = 0; less < size; less++) /* cut off anywhere it is no view */
        assert_int_equal(sl_view_unpack(bytes, less, again), -1);
    sl_free(bytes);
    free(gate);
    free(view);
    free(again);
}

static void bytes_from_elsewhere_are_no_message(void **state) {
    (void)state;
    char bytes[sizeof(sl_message_head) + 2 * sizeof(sl_message_block)] = {0};
    sl_message_head *head = (sl_message_head *)(void *)bytes;
    sl_store_entry entry = {.bytes = bytes, .size = sizeof bytes};
    const void *body;
    assert_null(sl_message_read(&entry, SL_MESSAGE_ITERATIONS, &body));
    *head = (sl_message_head){
        .magic = SL_MESSAGE_MAGIC, .version = SL_MESSAGE_VERSION, .kind = SL_MESSAGE_ITERATIONS, .count = 2};
    assert_non_null(sl_message_read(&entry, SL_MESSAGE_ITERATIONS, &body));
    assert_ptr_equal(body, head + 1);
    assert_null(sl_message_read(&entry, SL_MESSAGE_CALLS, &body));
    head->count = 3;
    assert_null(sl_message_read(&entry, SL_MESSAGE_ITERATIONS, &body));
    head->count = 2;
    memset(head->node, 'x', sizeof head->node); /* no end */
    assert_null(sl_message_read(&entry, SL_MESSAGE_ITERATIONS, &body));
    entry.size = sizeof(sl_message_head) - 1;
    assert_null(sl_message_read(&entry, SL_MESSAGE_ITERATIONS, &body));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_are_the_same_on_the_other_side),
        cmocka_unit_test(bytes_from_elsewhere_are_no_message),
    };
    cmocka_set_test_filter(getenv("SL_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
