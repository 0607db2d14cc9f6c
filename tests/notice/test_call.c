#include "check.h"
#include "notice/record/call.h"

/* A number in a recorded log must mean the same call in every later version. */
static void calls_keep_their_names_and_numbers(void **state) {
    (void)state;
    assert_string_equal(sl_call_name(1), "MPI_Send");
    assert_int_equal(sl_call_of("MPI_Send"), 1);
    assert_int_equal(SL_CALL_MPI_Recv, 5);
    for (int i = 1; i < SL_CALL_COUNT; i++)
        assert_int_equal(sl_call_of(sl_call_name(i)), i);
    assert_int_equal(sl_call_of("MPI_Sen"), SL_CALL_NOTHING);
    assert_string_equal(sl_call_name(0), "?");
    assert_string_equal(sl_call_name(SL_CALL_COUNT), "?");
    assert_string_equal(sl_call_name(-1), "?");
}

static void a_call_comes_back_from_the_ring_as_it_was(void **state) {
    (void)state;
    sl_record_ring *ring = calloc(1, sl_record_ring_bytes(4));
    assert_int_equal(sl_record_ring_init(ring, 4), 0);
    sl_call call = {.kind = SL_RECORD_CALL,
                    .call = SL_CALL_ncclSend,
                    .thread = 65535,
                    .tag = SL_TAG_ANY,
                    .rank = 3,
                    .peer = SL_PEER_ANY,
                    .communicator = UINT64_MAX,
                    .bytes = UINT64_C(1) << 40,
                    .start = 5,
                    .end = 7,
                    .device = -1};
    for (int i = 0; i < 3; i++)
        sl_call_write(ring, 4, &call);
    uint64_t position = 2, lost = 0;
    sl_record record;
    sl_call back;
    assert_int_equal(sl_record_read(ring, 4, &position, &record, 1, &lost), 1);
    memcpy(&back, &record, sizeof back);
    call.sequence = 2;
    assert_memory_equal(&back, &call, sizeof call);
    free(ring);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_keep_their_names_and_numbers),
        cmocka_unit_test(a_call_comes_back_from_the_ring_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
