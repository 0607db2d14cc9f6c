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
    sl_gate_init(gate, 7, NULL);
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

/* A gate is shared memory: whatever a thread's state is, the view of it is one that can be read. */
static void a_thread_of_an_unknown_state_is_seen_as_moving(void **state) {
    (void)state;
    sl_gate *gate = aligned_alloc(64, (sizeof *gate + 63) / 64 * 64);
    sl_gate_view *view = calloc(1, sizeof *view), *again = calloc(1, sizeof *again);
    char *bytes = NULL;
    size_t capacity = 0, size;
    memset(gate, 0, sizeof *gate);
    sl_gate_init(gate, 7, NULL);
    atomic_store(&gate->threads, 1);
    atomic_store(&gate->thread[0].word, 5 << 8 | 77);
    sl_gate_look(gate, view);
    assert_int_equal(view->thread[0].state, SL_GATE_MOVING);
    assert_ok(sl_view_pack(view, &bytes, &capacity, &size));
    assert_int_equal(sl_view_unpack(bytes, size, again), 0);
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
    for (int i = 0; i < 2; i++)
        ((sl_message_block *)(void *)(head + 1))[i].count = 1;
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

/* One block or call as a message; whether it is read. */
static int is_read(sl_message_kind kind, const void *body, size_t size, int64_t rank) {
    char bytes[sizeof(sl_message_head) + 64] = {0};
    const sl_message_head head = {.magic = SL_MESSAGE_MAGIC,
                                  .version = SL_MESSAGE_VERSION,
                                  .kind = kind,
                                  .count = 1,
                                  .rank = (int32_t)rank};
    const void *found;
    memcpy(bytes, &head, sizeof head);
    memcpy(bytes + sizeof head, body, size);
    return sl_message_read(&(sl_store_entry){.bytes = bytes, .size = sizeof head + size}, kind, &found) !=
           NULL;
}

static void numbers_beyond_their_limits_are_no_message(void **state) {
    (void)state;
    const sl_message_block good = {.rank = 3,
                                   .count = 2,
                                   .period = 10,
                                   .number = 5,
                                   .start = 1000,
                                   .end = 2000,
                                   .time = 900,
                                   .bytes = 64};
    sl_message_block block[10];
    for (int i = 0; i < 10; i++)
        block[i] = good;
    block[1].rank = INT32_MAX;
    block[2].rank = -1;
    block[3].count = 0;
    block[4].period = -1;
    block[5].number = INT64_MAX;
    block[6].start = -1;
    block[7].end = 999;
    block[8].time = INT64_MAX;
    block[9].bytes = -1;
    for (int i = 0; i < 10; i++)
        if (is_read(SL_MESSAGE_ITERATIONS, &block[i], sizeof block[i], 0) != (i == 0))
            fail_msg("block %d", i);
    const sl_call well = {.kind = SL_RECORD_CALL,
                          .call = SL_CALL_MPI_Send,
                          .rank = 1,
                          .peer = 2,
                          .bytes = 8,
                          .start = 10,
                          .end = 20,
                          .device = -1};
    sl_call call[7];
    for (int i = 0; i < 7; i++)
        call[i] = well;
    call[1].rank = INT32_MAX;
    call[2].peer = INT32_MIN;
    call[3].bytes = UINT64_MAX;
    call[4].start = INT64_MIN;
    call[5].end = INT64_MAX;
    call[6].device = INT64_MAX;
    for (int i = 0; i < 7; i++)
        if (is_read(SL_MESSAGE_CALLS, &call[i], sizeof call[i], 0) != (i == 0))
            fail_msg("call %d", i);
    assert_false(is_read(SL_MESSAGE_CALLS, &well, sizeof well, INT32_MAX)); /* whose profile it is */
    assert_false(is_read(SL_MESSAGE_VIEW, "", 1, INT32_MAX));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_are_the_same_on_the_other_side),
        cmocka_unit_test(a_thread_of_an_unknown_state_is_seen_as_moving),
        cmocka_unit_test(bytes_from_elsewhere_are_no_message),
        cmocka_unit_test(numbers_beyond_their_limits_are_no_message),
    };
    cmocka_set_test_filter(getenv("SL_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
