/* Load that nobody has told of, in a pipeline of two: each step is worked out by hand. */
#include "check.h"

#include "adapt/orchestrator/pair_load.h"

#include <math.h>

static double after(double before, double was0, double was1, double now0, double now1) {
    return sl_pair_load(before, (double[]){was0, was1}, (double[]){now0, now1});
}

static int near(double a, double b) {
    return fabs(a - b) < 1e-9;
}

static void what_both_change_by_is_load(void **state) {
    (void)state;
    assert_true(near(after(1, 1, 1, 1.36, 1.36), 1.36));
    assert_true(near(after(1, 1, 2.5, 1.36, 3.4), 1.36)); /* one was slow already */
    assert_true(near(after(1.36, 1.36, 3.4, 1, 2.5), 1));
    assert_true(near(after(1, 1, 1, 1.36, 2.72), 1.36)); /* and one became slow just then */
}

static void what_one_changes_by_is_its_own(void **state) {
    (void)state;
    assert_true(near(after(1, 1, 1, 1, 2.5), 1));
    assert_true(near(after(1, 2.75, 1, 2.75, 2.6), 1));         /* as slow as the other is */
    assert_true(near(after(1.36, 1.36, 7.4, 1.36, 3.4), 1.36)); /* less slow, under load */
}

static void a_fault_that_ends_when_load_begins_leaves_load(void **state) {
    (void)state;
    assert_true(near(after(1, 1, 2.5, 1.36, 1.36), 1.36));
}

/* What was learnt under load: its end makes both faster than healthy, and the slow one stays slow. */
static void load_may_end_that_was_taken_for_healthy(void **state) {
    (void)state;
    assert_true(near(after(1, 1.33, 1, 1.33 / 1.5, 1 / 1.5), 1 / 1.5));
    assert_true(
        near(after(1, 2, 3, 1, 1.5), 1)); /* but one is healthy: something slow that both shared is over */
    assert_true(near(after(1, 2, 1, 2, 0.4), 1)); /* and one alone was slow when healthy was learnt */
}

static void small_changes_are_noise(void **state) {
    (void)state;
    assert_true(near(after(1, 1, 1, 1.04, 1.03), 1));
    assert_true(near(after(1.5, 1.5, 1.5, 1.5, 1.46), 1.46)); /* load spares nobody */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_both_change_by_is_load),
        cmocka_unit_test(what_one_changes_by_is_its_own),
        cmocka_unit_test(a_fault_that_ends_when_load_begins_leaves_load),
        cmocka_unit_test(load_may_end_that_was_taken_for_healthy),
        cmocka_unit_test(small_changes_are_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
