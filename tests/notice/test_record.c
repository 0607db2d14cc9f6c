/* The ring of records: nothing torn, nothing twice, losses counted. */
#include "check.h"

#include "notice/record/offset.h"
#include "notice/record/record.h"
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static void a_reader_gets_what_was_written_and_learns_what_it_lost(void **state) {
    (void)state;
    sl_record_ring *ring = calloc(1, sl_record_ring_bytes(8));
    assert_int_equal(sl_record_ring_init(ring, 7), -1);
    assert_int_equal(sl_record_ring_init(ring, 8), 0);
    assert_int_equal(sl_record_ring_capacity(ring, sl_record_ring_bytes(8)), 8);
    assert_int_equal(sl_record_ring_capacity(ring, sl_record_ring_bytes(8) - 1), 0);
    sl_record out[16];
    uint64_t position = 0, lost = 0;
    for (int i = 0; i < 5; i++)
        sl_record_write(ring, 8, &(sl_record){.start = i});
    assert_int_equal(sl_record_read(ring, 8, &position, out, 16, &lost), 5);
    assert_int_equal(out[4].start, 4);
    assert_int_equal(out[4].sequence, 4);
    for (int i = 5; i < 25; i++)
        sl_record_write(ring, 8, &(sl_record){.start = i});
    assert_int_equal(sl_record_read(ring, 8, &position, out, 16, &lost),
                     7); /* one slot may be in the writer's hands */
    assert_int_equal(lost, 13);
    assert_int_equal(out[0].start, 18);
    assert_int_equal(out[6].start, 24);
    free(ring);
}

/* Who shares the memory may change what the ring says of itself at any time. Behind this ring nothing is
 * mapped. */
static void a_capacity_that_changes_after_it_was_checked_harms_neither_side(void **state) {
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = sl_record_ring_bytes(64), room = 2 * page;
    assert_true(bytes <= room);
    char *memory = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(munmap(memory + room, page), 0);
    sl_record_ring *ring = (sl_record_ring *)(void *)(memory + room - bytes);
    assert_int_equal(sl_record_ring_init(ring, 64), 0);
    uint32_t capacity = sl_record_ring_capacity(ring, bytes);
    assert_int_equal(capacity, 64);
    ring->capacity = 1u << 30;
    for (int i = 0; i < 100; i++)
        sl_record_write(ring, capacity, &(sl_record){.start = i});
    sl_record out[128];
    uint64_t position = 0, lost = 0;
    assert_int_equal(sl_record_read(ring, capacity, &position, out, 128, &lost), 63);
    assert_int_equal(out[62].start, 99);
    assert_int_equal(munmap(memory, room), 0);
}

static void *write_many(void *ring) {
    for (int64_t i = 0; i < 300000; i++)
        sl_record_write(ring, 64, &(sl_record){.start = i, .end = -i, .arrive = i * 3, .due = i ^ 0x5555});
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
        size_t count = sl_record_read(ring, 64, &position, out, 32, &lost);
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

/* With one record, a head at the end of its range kept the reader busy forever. */
static void a_ring_of_one_record_is_none(void **state) {
    (void)state;
    uint8_t memory[sizeof(sl_record_ring) + sizeof(sl_record)] __attribute__((aligned(64))) = {0};
    sl_record_ring *ring = (sl_record_ring *)(void *)memory;
    assert_int_equal(sl_record_ring_init(ring, 1), -1);
    *ring = (sl_record_ring){.magic = SL_RECORD_MAGIC,
                             .version = SL_RECORD_VERSION,
                             .record_size = sizeof(sl_record),
                             .capacity = 1};
    assert_int_equal(sl_record_ring_capacity(ring, sizeof memory), 0);
}

static void a_head_at_the_end_of_its_range_ends_the_reading(void **state) {
    (void)state;
    uint8_t memory[sizeof(sl_record_ring) + 2 * sizeof(sl_record)] __attribute__((aligned(64))) = {0};
    sl_record_ring *ring = (sl_record_ring *)(void *)memory;
    sl_record records[8];
    uint64_t position = 0, lost = 0;
    assert_int_equal(sl_record_ring_init(ring, 2), 0);
    atomic_store(&ring->head, UINT64_MAX);
    assert_int_equal(sl_record_read(ring, 2, &position, records, 8, &lost), 0);
    assert_true(lost > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_gets_what_was_written_and_learns_what_it_lost),
        cmocka_unit_test(a_capacity_that_changes_after_it_was_checked_harms_neither_side),
        cmocka_unit_test(a_ring_of_one_record_is_none),
        cmocka_unit_test(a_head_at_the_end_of_its_range_ends_the_reading),
        cmocka_unit_test(a_concurrent_reader_never_sees_a_torn_record),
        cmocka_unit_test(the_offset_of_a_clock_lies_within_its_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
