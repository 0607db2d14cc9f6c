/* The wire format against the examples of the protobuf documentation ("Encoding"), and hostile bytes. */
#include "check.h"

#include "base/memory.h"
#include "plan/exact/protobuf.h"

static void check_bytes(sl_protobuf *message, const char *expected) {
    char text[256] = "";
    for (size_t i = 0; i < message->size; i++)
        sprintf(text + 2 * i, "%02x", message->bytes[i]);
    assert_int_equal(message->status, SL_OK);
    assert_string_equal(text, expected);
    sl_protobuf_clear(message);
}

static void messages_are_those_of_the_documentation(void **state) {
    (void)state;
    sl_protobuf message = {0}, nested = {0};
    sl_protobuf_int(&message, 1, 150);
    check_bytes(&message, "089601");
    sl_protobuf_text(&message, 2, "testing");
    check_bytes(&message, "120774657374696e67");
    sl_protobuf_int(&nested, 1, 150);
    sl_protobuf_nest(&message, 3, &nested);
    check_bytes(&message, "1a03089601");
    sl_protobuf_ints(&message, 6, (int64_t[]){3, 270, 86942}, 3);
    check_bytes(&message, "3206038e029ea705");
    sl_protobuf_int(&message, 1, -2);
    check_bytes(&message, "08feffffffffffffffff01");
    sl_protobuf_double(&message, 2, 1.0); /* IEEE 754: 3ff0.., low byte first */
    check_bytes(&message, "11000000000000f03f");
    sl_protobuf_free(&message);
    sl_protobuf_free(&nested);
}

static void what_is_written_is_read_back(void **state) {
    (void)state;
    static const int64_t values[] = {0, 1, 127, 128, -1, INT64_MIN, INT64_MAX};
    sl_protobuf message = {0};
    sl_protobuf_field field;
    sl_protobuf_ints(&message, 206, values, 7);
    sl_protobuf_int(&message, 1, INT64_MIN);
    const unsigned char *bytes = message.bytes;
    size_t size = message.size;
    assert_int_equal(sl_protobuf_next(&bytes, &size, &field), 1);
    assert_int_equal(field.number, 206);
    for (int i = 0; i < 7; i++) {
        uint64_t value;
        assert_true(sl_protobuf_varint(&field.bytes, &field.size, &value));
        assert_int_equal((int64_t)value, values[i]);
    }
    assert_int_equal(field.size, 0);
    assert_int_equal(sl_protobuf_next(&bytes, &size, &field), 1);
    assert_int_equal((int64_t)field.value, INT64_MIN);
    assert_int_equal(sl_protobuf_next(&bytes, &size, &field), 0);
    sl_protobuf_free(&message);
}

/* Returns the first answer that is not 1. */
static int walk(const unsigned char *bytes, size_t size) {
    sl_protobuf_field field;
    int more;
    while ((more = sl_protobuf_next(&bytes, &size, &field)) == 1)
        assert_true(!field.bytes || (field.bytes <= bytes && field.size <= 64));
    return more;
}

static void bytes_that_break_off_or_are_no_message_are_refused(void **state) {
    (void)state;
    static const unsigned char endless[] = {8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1};
    static const unsigned char too_long[] = {18, 200, 1, 'x'}, group[] = {11}, zero[] = {0, 0},
                               half_double[] = {17, 0, 0}, no_value[] = {8};
    assert_int_equal(walk(endless, sizeof endless), -1);
    assert_int_equal(walk(too_long, sizeof too_long), -1);
    assert_int_equal(walk(group, sizeof group), -1);
    assert_int_equal(walk(zero, sizeof zero), -1);
    assert_int_equal(walk(half_double, sizeof half_double), -1);
    assert_int_equal(walk(no_value, sizeof no_value), -1);
}

static void a_failed_allocation_is_remembered(void **state) {
    (void)state;
    sl_protobuf message = {0}, outer = {0};
    sl_alloc_fail_at(0);
    sl_protobuf_int(&message, 1, 1);
    sl_protobuf_int(&message, 1, 1); /* this one could be had */
    assert_int_equal(message.status, SL_ENOMEM);
    assert_int_equal(message.size, 0);
    sl_protobuf_nest(&outer, 1, &message);
    assert_int_equal(outer.status, SL_ENOMEM);
    sl_protobuf_free(&message);
    sl_protobuf_free(&outer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_those_of_the_documentation),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(bytes_that_break_off_or_are_no_message_are_refused),
        cmocka_unit_test(a_failed_allocation_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
