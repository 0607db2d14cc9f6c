/* Delegates carry the messages while a link exceeds its tolerance, as many as it needs. */
#include "adapt/orchestrator/steady_job.h"

#include "adapt/orchestrator/queues.h"

/* In order, 60 ms on a link hold its ranks at every send. Delegates take over once the delay has lasted, the
 * first schedule is then as fast as decoupled (680 ms: tests/cli/test_facts.py; an adapted one 450, the
 * bound), and they go after relief, when the first schedule runs again. */
static void delegates_take_over_while_a_link_exceeds_its_tolerance(void **state) {
    (void)state;
    steady_job j;
    make_job(&j, 1);
    j.healthy.communication = SL_INORDER;
    j.healthy.queue = 1;
    j.config.can = SCHEDULE | DELEGATE;
    plan_and_start(&j, "adaptra");
    int delegated = -1, direct = -1, swapped = -1, returned = -1;
    for (int i = 0; i < 90; i++) {
        set_delay(&j, i >= 25 && i < 60 ? 60 : 0);
        observe(&j, 1);
        assert_int_equal(event_of(&j, SL_EVENT_DELEGATE) != NULL, j.delegates > 0);
        assert_int_equal(event_of(&j, SL_EVENT_DIRECT) != NULL, j.delegates == -1);
        if (i >= 25 && i < 25 + HOLD - 1)
            assert_true(j.takes > 680 * SL_MS);
        if (j.delegates > 0) {
            assert_int_equal(delegated, -1);
            delegated = i;
        }
        if (delegated >= 0 && swapped < 0 && i > delegated)
            assert_int_equal(j.takes, 680 * SL_MS);
        if (j.delegates == -1) {
            assert_int_equal(direct, -1);
            direct = i;
        }
        if (j.swap)
            swapped = i;
        if (j.back)
            returned = i;
        if (swapped >= 0 && delegated >= 0 && i > swapped && i > delegated && i < 60)
            assert_int_equal(j.takes, 450 * SL_MS);
    }
    assert_in_range(delegated, 25 + HOLD - 1, 25 + HOLD);
    assert_in_range(swapped, delegated, delegated + 2 * HOLD);
    assert_in_range(returned, 60 + HOLD - 1, 60 + 3 * HOLD);
    assert_in_range(direct, 60 + HOLD - 1, 60 + 4 * HOLD);
    assert_int_equal(j.takes, 390 * SL_MS);
    close_job(&j);
}

/* 25 ms on the link while a message is made every 10: three delegates keep up, and a fourth is needed from 31
 * ms on. Fewer than needed are never there for long, and more are not taken away. */
static void as_many_delegates_as_the_link_needs(void **state) {
    (void)state;
    steady_job j;
    make_job(&j, 1);
    j.config.delegates = 1;
    j.config.can = DELEGATE;
    plan_and_start(&j, "adaptra");
    for (int i = 0; i < 60; i++) {
        j.now[0].link[2 * RANKS + 1].transfer = sl_from_ms(i < 10 ? 0 : i < 30 ? 25 : i < 45 ? 31 : 1);
        observe(&j, 1);
        int there = sl_orchestrator_layout(j.orchestrator)->delegates;
        assert_true(i >= 10 || there == 1);
        assert_true(i < 10 + 2 * HOLD || i >= 30 || there == 3);
        assert_true(i < 30 + 2 * HOLD || there == 4);
    }
    close_job(&j);
}

static void delegates_of_a_link_keep_up_with_what_is_made(void **state) {
    (void)state;
    int from, to;
    sl_problem lanes;
    assert_ok(sl_problem_make(RANKS, RANKS, 12, &lanes));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        for (int stage = 0; stage < RANKS; stage++)
            lanes.time[kind][stage] = 10 * SL_MS;
    /* 2 of 3 lanes of 24 ms seen at once look like 12 ms each (profile.h), and are not enough for 10 */
    lanes.link[1 * RANKS + 2] = (sl_link){.transfer = 12 * SL_MS, .lanes = 2};
    assert_int_equal(sl_queues_needed(&lanes, &from, &to), 3);
    assert_true(from == 1 && to == 2);
    sl_problem_free(&lanes);
    assert_int_equal(sl_queues_for(125, 500), 4); /* the paper's example: 8 made a second, 2 carried */
    assert_int_equal(sl_queues_for(10, 10), 1);
    assert_int_equal(sl_queues_for(10, 11), 2);
    assert_int_equal(sl_queues_for(10, 0), 1);
    assert_int_equal(sl_queues_for(1, INT64_MAX), SL_QUEUES_MAX);
}

/* The first link's tolerance under the first plan (warm-ups 7, 5, 3, 1): 20 + 2c <= 2 * 20, so 10 ms. */
static void a_delay_within_the_tolerance_needs_no_delegates(void **state) {
    (void)state;
    steady_job j;
    open_job(&j, SCHEDULE | DELEGATE);
    int delegated = -1;
    for (int i = 0; i < 60; i++) {
        set_delay(&j, i < 10 ? 0 : i < 40 ? 10 : 11);
        observe(&j, 1);
        if (j.delegates) {
            assert_int_equal(delegated, -1);
            assert_int_equal(j.delegates, 1);
            delegated = i;
        }
    }
    assert_in_range(delegated, 40, 40 + 2 * HOLD);
    close_job(&j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delegates_take_over_while_a_link_exceeds_its_tolerance),
        cmocka_unit_test(as_many_delegates_as_the_link_needs),
        cmocka_unit_test(delegates_of_a_link_keep_up_with_what_is_made),
        cmocka_unit_test(a_delay_within_the_tolerance_needs_no_delegates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
