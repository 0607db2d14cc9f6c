/* Medians and percentiles of times. */
#include "check.h"

#include "base/median.h"

static void a_percentile_is_the_least_value_that_so_many_do_not_exceed(void **state) {
    (void)state;
    sl_time values[] = {7, 3, 9, 1, 5, 10, 2, 8, 4, 6};
    assert_int_equal(sl_percentile(values, 10, 90), 9);
    assert_int_equal(sl_percentile(values, 10, 91), 10);
    assert_int_equal(sl_percentile(values, 10, 50), 5);
    assert_int_equal(sl_percentile(values, 10, 0), 1);
    assert_int_equal(sl_percentile(values, 10, 100), 10);
    assert_int_equal(sl_percentile(values, 5, 90), 5);
    assert_int_equal(sl_percentile(values, 0, 90), 0);
    assert_int_equal(sl_median(values, 10), 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_percentile_is_the_least_value_that_so_many_do_not_exceed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
