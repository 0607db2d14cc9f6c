/* Medians and percentiles. */
#include "check.h"

#include "base/numbers.h"

#include <math.h>

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

static void of_an_even_count_of_numbers_it_is_the_mean_of_the_two_in_the_middle(void **state) {
    (void)state;
    double values[] = {4, -1, 2.5, 8};
    assert_true(sl_median_of_numbers(values, 4) == 3.25);
    double odd[] = {4, -1, 2.5};
    assert_true(sl_median_of_numbers(odd, 3) == 2.5);
    assert_true(sl_median_of_numbers(odd, 1) == -1); /* they are sorted now */
    assert_true(isnan(sl_median_of_numbers(odd, 0)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_percentile_is_the_least_value_that_so_many_do_not_exceed),
        cmocka_unit_test(of_an_even_count_of_numbers_it_is_the_mean_of_the_two_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
