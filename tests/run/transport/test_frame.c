/* The header on the wire: fixed bytes, and nothing else is taken for a frame. */
#include "check.h"

#include "run/transport/frame.h"

/* DATA, iteration 1, index 0x0203, 4 bytes, number 5, time 0; little-endian, laid out by hand. */
static const uint8_t golden[SL_FRAME_BYTES] = {'S', 'F', 'R', 'M', 1, 0, 0, 0, 1, 0, 0, 0, 3, 2,
                                               0,   0,   4,   0,   0, 0, 0, 0, 0, 0, 5, 0, 0, 0,
                                               0,   0,   0,   0,   0, 0, 0, 0, 0, 0, 0, 0};

static void a_header_has_the_documented_bytes(void **state) {
    (void)state;
    sl_frame frame = {.kind = SL_FRAME_DATA, .iteration = 1, .index = 0x203, .bytes = 4, .sequence = 5}, back;
    uint8_t bytes[SL_FRAME_BYTES];
    sl_frame_encode(&frame, bytes);
    assert_memory_equal(bytes, golden, sizeof golden);
    assert_int_equal(sl_frame_decode(golden, &back), 0);
    assert_int_equal(back.kind, SL_FRAME_DATA);
    assert_int_equal(back.iteration, 1);
    assert_int_equal(back.index, 0x203);
    assert_int_equal(back.bytes, 4);
    assert_int_equal(back.sequence, 5);
    assert_int_equal(back.time, 0);
}

static void what_is_no_frame_is_refused(void **state) {
    (void)state;
    static const struct {
        int position;
        uint8_t value;
    } wrong[] = {{0, 's'}, {3, 0}, {4, 0}, {4, 5}, {7, 1} /* kinds out of range */,
                 {4, 2} /* an ACK with payload */};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint8_t bytes[SL_FRAME_BYTES];
        sl_frame frame;
        memcpy(bytes, golden, sizeof bytes);
        bytes[wrong[i].position] = wrong[i].value;
        assert_int_equal(sl_frame_decode(bytes, &frame), -1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_has_the_documented_bytes),
        cmocka_unit_test(what_is_no_frame_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
