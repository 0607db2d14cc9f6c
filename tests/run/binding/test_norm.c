#include "check.h"
#include "run/binding/cpu_group.h"

#include "run/binding/gradient_norm.h"
#include <math.h>

/* Integers: every sum is exact, so the expected values are plain arithmetic. */
static void blocks_hold_1024_squares_each(void **state) {
    (void)state;
    float x[2500];
    double out[3];
    for (int i = 0; i < 2500; i++)
        x[i] = (float)(i % 7);
    assert_int_equal(sl_norm_blocks(2500), 3);
    assert_int_equal(sl_norm_blocks(1024), 1);
    assert_int_equal(sl_norm_blocks(1), 1);
    device->squares(device, 0, 2500, x, out);
    for (int b = 0; b < 3; b++) {
        long expected = 0;
        for (int i = b * 1024; i < (b + 1) * 1024 && i < 2500; i++)
            expected += (i % 7) * (i % 7);
        assert_near(out[b], (double)expected, 0);
    }
}

static void threads_change_no_bit(void **state) {
    (void)state;
    enum { N = 200001 };
    static float x[N];
    static double one[N / 1024 + 1], several[N / 1024 + 1];
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 1009) / 1e3f - 0.5f;
    device->squares(device, 0, N, x, one);
    for (int threads = 1; threads <= 5; threads++) {
        memset(several, 0, sizeof several);
        device->squares(device, threads, N, x, several);
        assert_memory_equal(one, several, sizeof one);
    }
}

/* Whoever holds blocks 1.. computes them from there: cutting at a block changes nothing. */
static void cutting_at_a_block_changes_no_bit(void **state) {
    (void)state;
    float x[5000];
    double whole[5], part[5];
    unsigned s = 1;
    for (int i = 0; i < 5000; i++) {
        s = s * 1664525u + 1013904223u;
        x[i] = (float)s / 4e9f - 0.5f;
    }
    device->squares(device, 0, 5000, x, whole);
    device->squares(device, 0, 2048, x, part);
    device->squares(device, 0, 5000 - 2048, x + 2048, part + 2);
    assert_memory_equal(whole, part, sizeof whole);
}

static void the_norm_is_clipped_to_the_limit(void **state) {
    (void)state;
    double squares[] = {9, 16, 144};
    assert_near(sl_norm_total(squares, 3), 13, 0);
    assert_near((double)sl_norm_clip(13, 6.5), 0.5f, 0);
    assert_near((double)sl_norm_clip(13, 13), 1, 0);
    assert_near((double)sl_norm_clip(13, 0), 1, 0);
    float bad[2] = {1, NAN};
    double out;
    device->squares(device, 0, 2, bad, &out);
    assert_true(isnan(sl_norm_total(&out, 1)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(blocks_hold_1024_squares_each),
        cmocka_unit_test(cutting_at_a_block_changes_no_bit),
        cmocka_unit_test(the_norm_is_clipped_to_the_limit),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
