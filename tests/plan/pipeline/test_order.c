/* Orders: copies, warm-up, ascending sums, and the check that takes nothing for granted. */
#include "check.h"
#include "plan/order_text.h"

#include "base/memory.h"
#include "plan/pipeline/order.h"

static void make(const char *first, const char *second, sl_order *order) {
    assert_ok(sl_order_make(2, 20, order));
    fill(order, 0, first);
    fill(order, 1, second);
}

static const char good[] = "0F0 0F1 0I0 0W0 0B1", also_good[] = "1F0 1B0 1F1 1I1 1W1";

static void a_schedule_of_the_problem_passes(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    int rank, position;
    assert_ok(sl_problem_make(2, 2, 2, &p));
    make(good, also_good, &order);
    assert_ok(sl_order_check(&p, &order));
    assert_ok(sl_order_check_at(&p, &order, &rank, &position));
    assert_true(rank == -1 && position == -1);
    sl_order_free(&order);
    sl_problem_free(&p);
}

static void every_fault_names_rank_position_and_op(void **state) {
    (void)state;
    static const struct {
        const char *second;
        int position;
        const char *says;
    } cases[] = {
        {"1F0 1B0 1F1 1I1", -1, "rank 1: 1W1 is missing"},
        {"1F0 1B0 1F1", -1, "rank 1: 1I1 is missing"},
        {"1F0 1B0", -1, "rank 1: 1F1 is missing"},
        {"", -1, "rank 1: 1F0 is missing"},
        {"1F0 1B0 1F1 1I1 1W1 1W1", 5, "rank 1, op 5: 1W1 is duplicated"},
        {"1F0 1F0 1B0 1F1 1I1 1W1", 1, "rank 1, op 1: 1F0 is duplicated"},
        {"1B0 1F0 1F1 1I1 1W1", 0, "rank 1, op 0: 1B0 precedes its F"},
        {"1F0 1B0 1F1 1W1 1I1", 3, "rank 1, op 3: 1W1 precedes its I"},
        {"1F0 1B0 1W0 1F1 1I1 1W1", 2, "rank 1, op 2: 1W0"},
        {"1F0 1I0 1B0 1F1 1I1 1W1", 2, "rank 1, op 2: 1B0 is in addition to a B"},
        {"1F0 1B0 1F1 1I1 0W1", 4, "rank 1, op 4: 0W1 is on the wrong rank"},
        {"1F0 1B0 1F1 1I1 2W1", 4, "rank 1, op 4: 2W1 is not of this problem (2 stages, 2 microbatches)"},
        {"1F0 1B0 1F2", 2, "rank 1, op 2: 1F2 is not of this problem"},
        {"1F0 1B0 -1F1", 2, "rank 1, op 2: -1F1 is not of this problem"},
        {"1F0 1B0 1F-1", 2, "rank 1, op 2: 1F-1 is not of this problem"},
        {"1F0 1X0", 1, "rank 1, op 1: 1?0 is not of this problem"},
    };
    sl_problem p;
    assert_ok(sl_problem_make(2, 2, 2, &p));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_order order;
        int rank, position;
        make(good, cases[i].second, &order);
        assert_fails(sl_order_check_at(&p, &order, &rank, &position), SL_EINVAL, cases[i].says);
        assert_int_equal(rank, 1);
        assert_int_equal(position, cases[i].position);
        sl_order_free(&order);
    }
    sl_order small;
    assert_ok(sl_order_make(1, 1, &small));
    assert_fails(sl_order_check(&p, &small), SL_EINVAL, "1 ranks, the problem 2");
    sl_order_free(&small);
    sl_problem_free(&p);
}

static void sums_in_ascending_microbatches_are_told_from_others(void **state) {
    (void)state;
    sl_order order;
    make("0F0 0F1 0I1 0I0 0W0 0W1", "1F1 1F0 1B0 1I1 1W1", &order); /* only W and B count, not F and I */
    assert_ok(sl_order_check_ascending(&order));
    sl_order_free(&order);
    make(good, "1F0 1F1 1B1 1I0 1W0", &order);
    assert_fails(sl_order_check_ascending(&order), SL_EINVAL, "rank 1, op 4: 1W0 comes after microbatch 1");
    sl_order_free(&order);
}

static void warm_up_counts_forwards_before_the_first_backward(void **state) {
    (void)state;
    sl_order order;
    int warmup[2];
    make("0F0 0F1 0I0 0F2 0W0", "1F0 1B0 1F1", &order);
    sl_order_warmup(&order, warmup);
    assert_true(warmup[0] == 2 && warmup[1] == 1);
    fill(&order, 0, "0F0 0F1 0F2");
    fill(&order, 1, "");
    sl_order_warmup(&order, warmup);
    assert_true(warmup[0] == 3 && warmup[1] == 0);
    sl_order_free(&order);
}

static void a_copy_is_equal_until_one_op_differs(void **state) {
    (void)state;
    sl_order order, copy;
    make(good, also_good, &order);
    assert_ok(sl_order_copy(&order, &copy));
    assert_true(sl_order_equal(&order, &copy));
    copy.ops[1][4].microbatch = 0;
    assert_false(sl_order_equal(&order, &copy));
    copy.ops[1][4].microbatch = 1;
    copy.count[1]--;
    assert_false(sl_order_equal(&order, &copy));
    sl_order_free(&copy);
    assert_ok(sl_order_make(1, 4, &copy));
    assert_false(sl_order_equal(&order, &copy));
    sl_order_free(&copy);
    sl_order_free(&order);
}

static void every_failed_allocation_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    int failures = 0, done = 0;
    assert_ok(sl_problem_make(2, 2, 2, &p));
    make(good, also_good, &order);
    for (long n = 0; !done && n < 100; n++) {
        sl_order copy = {0};
        sl_alloc_fail_at(n);
        sl_status status = sl_order_check(&p, &order);
        if (status == SL_OK)
            status = sl_order_copy(&order, &copy);
        sl_alloc_fail_at(-1);
        done = status == SL_OK;
        failures += !done;
        if (!done)
            assert_int_equal(status, SL_ENOMEM);
        sl_order_free(&copy);
    }
    assert_int_equal(failures, 5); /* what has been seen; counts, ranks and each rank's ops */
    sl_order_free(&order);
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_schedule_of_the_problem_passes),
        cmocka_unit_test(every_fault_names_rank_position_and_op),
        cmocka_unit_test(sums_in_ascending_microbatches_are_told_from_others),
        cmocka_unit_test(warm_up_counts_forwards_before_the_first_backward),
        cmocka_unit_test(a_copy_is_equal_until_one_op_differs),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
