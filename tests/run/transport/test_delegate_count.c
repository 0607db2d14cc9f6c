#include "check.h"

#include "run/transport/delegate_count.h"

static void consumption_keeps_pace_with_production(void **state) {
    (void)state;
    /* the paper's example: 8 produced a second, 2 consumed a second by one */
    assert_int_equal(sl_delegate_count(500 * SL_MS, 125 * SL_MS), 4);
    /* by hand: 3 / 2 rounded up; equal rates; a slow trainer; one ns more than a whole number */
    assert_int_equal(sl_delegate_count(30 * SL_MS, 20 * SL_MS), 2);
    assert_int_equal(sl_delegate_count(20 * SL_MS, 20 * SL_MS), 1);
    assert_int_equal(sl_delegate_count(1, 20 * SL_MS), 1);
    assert_int_equal(sl_delegate_count(40 * SL_MS + 1, 20 * SL_MS), 3);
}

static void there_is_at_least_one_and_never_more_than_eight(void **state) {
    (void)state;
    assert_int_equal(sl_delegate_count(160 * SL_MS, 20 * SL_MS), 8);
    assert_int_equal(sl_delegate_count(161 * SL_MS, 20 * SL_MS), 8);
    assert_int_equal(sl_delegate_count(SL_TIME_NEVER, 1), 8);
    assert_int_equal(sl_delegate_count(SL_MS, 0), 8);
    assert_int_equal(sl_delegate_count(0, 0), 1);
    assert_int_equal(sl_delegate_count(0, SL_MS), 1);
    assert_int_equal(sl_delegate_count(-1, SL_MS), 1);
    assert_int_equal(sl_delegate_count(SL_MS, -1), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(consumption_keeps_pace_with_production),
        cmocka_unit_test(there_is_at_least_one_and_never_more_than_eight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
