/* Work that has grown is told, and work that varies is not. */
#include "random_problem.h"

#include "adapt/orchestrator/loads.h"

#include <math.h>

enum { SERIES = 300, ROWS = 200 };

static double normal(uint64_t *state) {
    double radius = sqrt(-2 * log(sl_random_unit(sl_random_mix(*state += SL_RANDOM_STEP))));
    return radius * cos(6.283185307179586 * sl_random_unit(sl_random_mix(*state += SL_RANDOM_STEP)));
}

/* Of `microbatches` log-normal lengths. */
static double draw_work(uint64_t *state, double sigma, int microbatches) {
    double sum = 0;
    for (int i = 0; i < microbatches; i++)
        sum += exp(sigma * normal(state));
    return sum;
}

/* From a table of Student's distribution: two-sided 5 % with 5 and 0.1 % with 10 degrees of freedom,
 * one-sided 0.05 % with 30. */
static void errors_are_as_rare_as_students_t(void **state) {
    (void)state;
    assert_true(fabs(sl_errors_of_student(2.5706, 5) - 1.95996) < 0.01);
    assert_true(fabs(sl_errors_of_student(4.5869, 10) - 3.29053) < 0.01);
    assert_true(fabs(sl_errors_of_student(3.6460, 30) - 3.29053) < 0.01);
}

static void work_that_varies_has_not_grown(void **state) {
    (void)state;
    uint64_t seed = seed_of(1);
    for (int i = 0; i < SERIES; i++) {
        sl_loads l = {.rows = 0};
        double sigma = 0.2 + 0.8 * sl_random_unit(sl_random_mix(seed + (uint64_t)i));
        for (int row = 0; row < ROWS; row++) {
            sl_loads_add(&l, draw_work(&seed, sigma, 4 + i % 9), 1);
            assert_int_equal(sl_loads_grown(&l, 0, 1.1).rows, 0);
        }
    }
}

/* The hardest of tests/adapt/orchestrator/test_work.c: 4 microbatches that vary by 0.4, half as long again.
 */
static void half_as_much_again_is_told(void **state) {
    (void)state;
    uint64_t seed = seed_of(2);
    for (int i = 0; i < SERIES; i++) {
        sl_loads l = {.rows = 0};
        sl_growth g = {0};
        for (int row = 0; row < 100 && !g.rows; row++) {
            sl_loads_add(&l, (row < 40 ? 1 : 1.5) * draw_work(&seed, 0.4, 4), 1);
            g = sl_loads_grown(&l, 0, 1.1);
        }
        assert_true(g.rows > 0 && g.announced);
        assert_true(g.times > 1.2 && g.times < 1.9);
    }
}

static void what_never_varied_is_told_by_the_rows_that_have_grown(void **state) {
    (void)state;
    sl_loads l = {.rows = 0};
    for (int row = 0; row < 20 + SL_LOADS_MIN; row++) {
        assert_true(row > 20 || !sl_loads_grown(&l, 0, 1.1).rows);
        sl_loads_add(&l, row < 20 ? 1000 : 1500, 1);
    }
    sl_growth g = sl_loads_grown(&l, 0, 1.1);
    assert_int_equal(g.rows, SL_LOADS_MIN);
    assert_true(fabs(g.before - 1000) < 1e-6 && fabs(g.times - 1.5) < 1e-9);
    l.since = 20; /* that is how it is now */
    assert_int_equal(sl_loads_grown(&l, 0, 1.1).rows, 0);
}

/* Times before the last change of schedule say nothing of work. */
static void times_stand_for_work_since_the_last_change(void **state) {
    (void)state;
    sl_loads l = {.rows = 0};
    for (int row = 0; row < 40; row++)
        sl_loads_add(&l, 0, row < 20 ? 100 : 150);
    assert_int_equal(sl_loads_grown(&l, 0, 1.1).rows, 20);
    assert_false(sl_loads_grown(&l, 0, 1.1).announced);
    assert_int_equal(sl_loads_grown(&l, 20, 1.1).rows, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_as_rare_as_students_t),
        cmocka_unit_test(work_that_varies_has_not_grown),
        cmocka_unit_test(half_as_much_again_is_told),
        cmocka_unit_test(what_never_varied_is_told_by_the_rows_that_have_grown),
        cmocka_unit_test(times_stand_for_work_since_the_last_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
