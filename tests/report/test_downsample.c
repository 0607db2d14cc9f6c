/* What is drawn of a long series is little, ascending, and has every peak and dip of the whole. */
#include "report/downsample.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void a_short_series_is_drawn_whole(void **state) {
    const double y[] = {3, 1, NAN, 2};
    size_t index[4];
    (void)state;
    assert_int_equal(sl_downsample(y, 4, 10, index), 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(index[i], i);
    assert_int_equal(sl_downsample(y, 0, 10, index), 0);
}

static int has(const size_t *index, size_t kept, size_t wanted) {
    for (size_t i = 0; i < kept; i++)
        if (index[i] == wanted)
            return 1;
    return 0;
}

static void a_long_series_keeps_its_peaks(void **state) {
    static double y[100000];
    static size_t index[100000];
    const char *text = getenv("SL_SEED");
    unsigned seed = text ? (unsigned)strtoul(text, NULL, 10) : 7;
    (void)state;
    print_message("SL_SEED=%u\n", seed);
    srand(seed);
    for (size_t i = 0; i < 100000; i++)
        y[i] = rand() % 1000;
    y[777] = NAN;
    size_t peak = (size_t)rand() % 100000, dip = (peak + 41) % 100000;
    y[peak] = 1e6;
    y[dip] = -1e6;
    size_t kept = sl_downsample(y, 100000, 1500, index);
    assert_true(kept <= 1501);
    assert_true(has(index, kept, peak) && has(index, kept, dip));
    assert_int_equal(index[0], 0);
    assert_int_equal(index[kept - 1], 99999);
    for (size_t i = 1; i < kept; i++)
        assert_true(index[i] > index[i - 1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_short_series_is_drawn_whole),
                                       cmocka_unit_test(a_long_series_keeps_its_peaks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
