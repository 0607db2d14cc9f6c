/* The ring of records: nothing torn, nothing twice, losses counted. */
#include "check.h"

#include "notice/record/offset.h"
#include "notice/record/record.h"
#include <pthread.h>

static void a_reader_gets_what_was_written_and_learns_what_it_lost(void **state) {
    (void)state;
    sl_record_ring *ring = calloc(1, sl_record_ring_bytes(8));
    assert_int_equal(sl_record_ring_init(ring, 7), -1);
    assert_int_equal(sl_record_ring_init(ring, 8), 0);
    assert_int_equal(sl_record_ring_valid(ring, sl_record_ring_bytes(8)), 0);
    assert_int_equal(sl_record_ring_valid(ring, sl_record_ring_bytes(8) - 1), -1);
    sl_record out[16];
    uint64_t position = 0, lost = 0;
    for (int i = 0; i < 5; i++)
        sl_record_write(ring, &(sl_record){.start = i});
    assert_int_equal(sl_record_read(ring, &position, out, 16, &lost), 5);
    assert_int_equal(out[4].start, 4);
    assert_int_equal(out[4].sequence, 4);
    for (int i = 5; i < 25; i++)
        sl_record_write(ring, &(sl_record){.start = i});
    assert_int_equal(sl_record_read(ring, &position, out, 16, &lost),
                     7); /* one slot may be in the writer's hands */
    assert_int_equal(lost, 13);
    assert_int_equal(out[0].start, 18);
    assert_int_equal(out[6].start, 24);
    free(ring);
}

static void *write_many(void *ring) {
    for (int64_t i = 0; i < 300000; i++)
        sl_record_write(ring, &(sl_record){.start = i, .end = -i, .arrive = i * 3, .due = i ^ 0x5555});
    return NULL;
}

static void a_concurrent_reader_never_sees_a_torn_record(void **state) {
    (void)state;
    sl_record_ring *ring = calloc(1, sl_record_ring_bytes(64));
    sl_record_ring_init(ring, 64);
    pthread_t writer;
    pthread_create(&writer, NULL, write_many, ring);
    uint64_t position = 0, lost = 0, seen = 0;
    while (position < 300000) {
        sl_record out[32];
        size_t count = sl_record_read(ring, &position, out, 32, &lost);
        for (size_t i = 0; i < count; i++) {
            int64_t n = out[i].start;
            assert_true(out[i].end == -n && out[i].arrive == n * 3 && out[i].due == (n ^ 0x5555));
            assert_int_equal(out[i].sequence, n);
        }
        seen += count;
    }
    pthread_join(writer, NULL);
    assert_int_equal(seen + lost, 300000);
    free(ring);
}

/* By hand: their clock is 5,000,000 ahead. Request takes 300, reply 100: the estimate is off by 100, the
 * bound 200. */
static void the_offset_of_a_clock_lies_within_its_bound(void **state) {
    (void)state;
    sl_offset o = {0};
    sl_offset_add(&o, 1000, 5001300, 1400, 0);
    assert_int_equal(o.offset, 5000100);
    assert_int_equal(o.error, 200);
    sl_offset_add(&o, 2000, 5002050, 2100, 0); /* a quicker trip bounds it better */
    assert_int_equal(o.offset, 5000000);
    assert_int_equal(o.error, 50);
    sl_offset_add(&o, 3000, 7003001, 3002, 1); /* a suspect link changes nothing */
    assert_int_equal(o.offset, 5000000);
    assert_true(sl_offset_direction_certain(1000, 800, 99));
    assert_false(sl_offset_direction_certain(1000, 800, 100));
    for (int i = 0; i < SL_OFFSET_TRIPS; i++) /* drift: old trips lose their say */
        sl_offset_add(&o, 10000, 6010100, 10200, 0);
    assert_int_equal(o.offset, 6000000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_gets_what_was_written_and_learns_what_it_lost),
        cmocka_unit_test(a_concurrent_reader_never_sees_a_torn_record),
        cmocka_unit_test(the_offset_of_a_clock_lies_within_its_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
