#include "check.h"

#include "base/memory.h"
#include "run/device/arena.h"

static void blocks_are_aligned_apart_and_counted(void **state) {
    (void)state;
    sl_arena *a;
    char *x, *y, *z;
    assert_ok(sl_arena_open(NULL, 1000, &a)); /* rounded to 1024 */
    assert_int_equal(sl_arena_limit(a), 1024);
    assert_ok(sl_arena_take(a, 1, SL_ARENA_LOW, "x", &x));
    assert_ok(sl_arena_take(a, 65, SL_ARENA_LOW, "y", &y));
    assert_ok(sl_arena_take(a, 100, SL_ARENA_HIGH, "z", &z));
    assert_int_equal((uintptr_t)x % 64, 0);
    assert_int_equal(y - x, 64);
    assert_int_equal(z - x, 1024 - 128);
    assert_int_equal(sl_arena_in_use(a), 64 + 128 + 128);
    sl_arena_give(a, y);
    assert_int_equal(sl_arena_in_use(a), 192);
    assert_int_equal(sl_arena_peak(a), 320);
    sl_arena_give(a, NULL);
    sl_arena_give(a, x);
    sl_arena_give(a, z);
    assert_int_equal(sl_arena_in_use(a), 0);
    assert_ok(sl_arena_take(a, 1024, SL_ARENA_HIGH, "all", &x));
    sl_arena_close(a);
}

static void the_limit_is_hard(void **state) {
    (void)state;
    sl_arena *a;
    char *x, *y, *z;
    assert_ok(sl_arena_open(NULL, 256, &a));
    assert_ok(sl_arena_take(a, 192, SL_ARENA_LOW, "x", &x));
    assert_fails(sl_arena_take(a, 65, SL_ARENA_LOW, "the second", &y), SL_ENOMEM,
                 "the second needs 128 bytes, 192 of the limit of 256");
    assert_int_equal(sl_arena_in_use(a), 192);
    assert_fails(sl_arena_take(a, SIZE_MAX, SL_ARENA_LOW, "too much", &y), SL_ENOMEM, "too much");
    sl_arena_give(a, x);
    assert_ok(sl_arena_take(a, 64, SL_ARENA_LOW, "x", &x));
    assert_ok(sl_arena_take(a, 64, SL_ARENA_LOW, "y", &y));
    assert_ok(sl_arena_take(a, 128, SL_ARENA_LOW, "z", &z));
    sl_arena_give(a, x);
    sl_arena_give(a, z);
    assert_fails(sl_arena_take(a, 192, SL_ARENA_LOW, "w", &x), SL_ENOMEM, "no gap");
    sl_arena_close(a);
    sl_alloc_fail_at(1);
    assert_fails(sl_arena_open(NULL, 256, &a), SL_ENOMEM, "256 bytes");
    assert_fails(sl_arena_open(NULL, SIZE_MAX, &a), SL_ENOMEM, "arena");
}

/* Two sizes from two ends: as many of each as the limit holds, whatever the order in which they come and go.
 */
static void two_sizes_from_two_ends_never_fragment(void **state) {
    (void)state;
    enum { PAIRS = 9 };
    const char *text = getenv("SL_SEED");
    unsigned seed = text ? (unsigned)atoi(text) : 4711;
    print_message("seed %u (SL_SEED)\n", seed);
    sl_arena *a;
    char *low[PAIRS] = {0}, *high[PAIRS] = {0};
    assert_ok(sl_arena_open(NULL, PAIRS * (640 + 448), &a));
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1664525u + 1013904223u;
        unsigned slot = (seed >> 8) % PAIRS, side = (seed >> 20) % 2;
        char **block = side ? &high[slot] : &low[slot];
        if (*block) {
            for (int k = 0; k < 448; k++)
                assert_int_equal((*block)[k], (char)(slot * 2 + side));
            sl_arena_give(a, *block);
            *block = NULL;
        } else {
            assert_ok(
                sl_arena_take(a, side ? 448 : 640, side ? SL_ARENA_HIGH : SL_ARENA_LOW, "a block", block));
            memset(*block, (int)(slot * 2 + side), side ? 448 : 640);
        }
    }
    sl_arena_close(a);
}

/* Six of the low blocks or three of the high ones fill the limit; with room for both the one in use is what
 * counts, wherever the others have lain before. */
static void room_beyond_the_limit_keeps_gaps_from_mattering(void **state) {
    (void)state;
    enum { LOW = 6, HIGH = 3 };
    sl_arena *a;
    char *low[LOW], *high[HIGH], *more;
    assert_ok(sl_arena_open_room(NULL, LOW * 640, LOW * 640 + HIGH * 1280, &a));
    assert_int_equal(sl_arena_limit(a), LOW * 640);
    for (int i = 0; i < LOW; i++)
        assert_ok(sl_arena_take(a, 640, SL_ARENA_LOW, "low", &low[i]));
    assert_fails(sl_arena_take(a, 64, SL_ARENA_HIGH, "one more", &more), SL_ENOMEM,
                 "one more needs 64 bytes, 3840 of the limit of 3840");
    for (int i = 0; i < LOW - 2; i++) /* two of them stay at the upper end */
        sl_arena_give(a, low[i]);
    for (int i = 0; i < 2; i++)
        assert_ok(sl_arena_take(a, 1280, SL_ARENA_HIGH, "high", &high[i]));
    assert_fails(sl_arena_take(a, 1280, SL_ARENA_HIGH, "a third", &high[2]), SL_ENOMEM, "a third");
    sl_arena_give(a, low[4]);
    sl_arena_give(a, low[5]);
    assert_ok(sl_arena_take(a, 1280, SL_ARENA_HIGH, "a third", &high[2]));
    assert_int_equal(sl_arena_in_use(a), LOW * 640);
    assert_int_equal(sl_arena_peak(a), LOW * 640);
    for (int i = 0; i < HIGH; i++)
        sl_arena_give(a, high[i]);
    sl_arena_close(a);
    assert_fails(sl_arena_open_room(NULL, 64, SIZE_MAX, &a), SL_ENOMEM, "arena");
}

/* Where it lies: what is in it stays, and what is added can be used to the last byte. */
static void an_arena_in_use_is_extended_by_a_quarter_and_no_more(void **state) {
    (void)state;
    const size_t size = (size_t)8 << 20, quarter = size / 4;
    sl_arena *a;
    char *low, *high, *more;
    assert_ok(sl_arena_open(NULL, size, &a));
    assert_ok(sl_arena_take(a, size / 2, SL_ARENA_LOW, "low", &low));
    assert_ok(sl_arena_take(a, size / 2, SL_ARENA_HIGH, "high", &high));
    memset(low, 1, size / 2);
    memset(high, 2, size / 2);
    assert_false(sl_arena_extend(a, size + quarter + 64, 0));
    assert_int_equal(sl_arena_limit(a), size);
    assert_true(sl_arena_extend(a, size / 2, size)); /* never less */
    assert_int_equal(sl_arena_limit(a), size);
    assert_true(sl_arena_extend(a, size + quarter, 0));
    assert_ok(sl_arena_take(a, quarter, SL_ARENA_LOW, "more", &more));
    memset(more, 3, quarter);
    assert_true(low[0] == 1 && low[size / 2 - 1] == 1 && high[0] == 2 && high[size / 2 - 1] == 2);
    assert_int_equal(sl_arena_peak(a), size + quarter);
    sl_arena_give(a, high);
    sl_arena_restart_peak(a);
    assert_int_equal(sl_arena_peak(a), size / 2 + quarter);
    sl_arena_give(a, low);
    sl_arena_give(a, more);
    sl_arena_close(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_apart_and_counted),
        cmocka_unit_test(the_limit_is_hard),
        cmocka_unit_test(room_beyond_the_limit_keeps_gaps_from_mattering),
        cmocka_unit_test(two_sizes_from_two_ends_never_fragment),
        cmocka_unit_test(an_arena_in_use_is_extended_by_a_quarter_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
