/* The strength of the bound: problems whose shortest schedule is found by hand, and the bound reaches it. */
#include "check.h"

#include "plan/bound/bound.h"
#include "plan/pipeline/problem.h"

static sl_problem uniform(int ranks, int microbatches, sl_time time) {
    sl_problem p;
    assert_ok(sl_problem_make(ranks, ranks, microbatches, &p));
    for (int s = 0; s < ranks; s++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            p.time[kind][s] = time;
        p.time[SL_B][s] = 2 * time;
    }
    return p;
}

static void expect_bound(sl_problem *p, int deep, sl_time expected) {
    sl_time bound;
    assert_ok(sl_lower_bound(p, deep, &bound));
    assert_int_equal(bound, expected);
}

/* Adaptra's example: 390 ms, and a delay of c on a link adds c, up to a delay that a microbatch's round trip
 * shows. */
static void four_ranks_with_a_slow_link(void **state) {
    (void)state;
    sl_problem p = uniform(4, 12, 10 * SL_MS);
    for (int c = 0; c <= 80; c += 10) {
        p.link[0 * 4 + 1].latency = p.link[1 * 4 + 0].latency = c * SL_MS;
        expect_bound(&p, 1, (390 + c) * SL_MS);
    }
    sl_problem_free(&p);
}

static void a_single_rank_works_all_the_time(void **state) {
    (void)state;
    sl_problem p = uniform(1, 5, 7);
    expect_bound(&p, 0, 5 * 3 * 7);
    p.time[SL_B][0] = 11; /* shorter than I and W */
    expect_bound(&p, 0, 5 * (7 + 11));
    sl_problem_free(&p);
}

/* Two ranks, all messages on one wire, which is busy from the end of the first F on: 1 + 4 * 10, and the last
 * gradient still has its I and W to come on rank 0. */
static void a_shared_wire_is_followed_by_the_ops_of_its_last_message(void **state) {
    (void)state;
    sl_problem p = uniform(2, 2, 1);
    p.link[0 * 2 + 1].transfer = p.link[1 * 2 + 0].transfer = 10;
    p.wire = calloc(4, sizeof *p.wire);
    expect_bound(&p, 0, 43);
    p.time[SL_I][0] = 5;
    p.time[SL_B][0] = 6;
    expect_bound(&p, 0, 1 + 40 + 5 + 1);
    sl_problem_free(&p);
}

/* Each direction has its own wire: the last activation has left after 1 + 3 * 10, and takes F, I, its way
 * back and I, W of rank 0. */
static void a_wire_of_one_direction_is_followed_by_the_way_back(void **state) {
    (void)state;
    sl_problem p = uniform(2, 3, 1);
    p.link[0 * 2 + 1].transfer = 10;
    expect_bound(&p, 0, 1 + 30 + 1 + 1 + 1 + 1);
    p.link[0 * 2 + 1].latency = 3;
    p.link[1 * 2 + 0].latency = 4;
    expect_bound(&p, 0, 1 + 30 + 3 + 1 + 1 + 4 + 1 + 1);
    sl_problem_free(&p);
}

/* Room for one microbatch: the next F waits for the W before. */
static void memory_for_one_microbatch_puts_them_one_after_the_other(void **state) {
    (void)state;
    sl_problem p = uniform(1, 4, 2);
    p.limit = calloc(1, sizeof *p.limit);
    p.limit[0] = 1;
    expect_bound(&p, 1, 4 * 6);
    sl_problem_free(&p);
    p = uniform(2, 3, 2); /* rank 0: F, the whole way of its gradient, I, W; three times */
    p.limit = calloc(2, sizeof *p.limit);
    p.limit[0] = 1;
    p.limit[1] = 3;
    expect_bound(&p, 1, 3 * (2 + 2 + 2 + 2 + 2));
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_ranks_with_a_slow_link),
        cmocka_unit_test(a_single_rank_works_all_the_time),
        cmocka_unit_test(a_shared_wire_is_followed_by_the_ops_of_its_last_message),
        cmocka_unit_test(a_wire_of_one_direction_is_followed_by_the_way_back),
        cmocka_unit_test(memory_for_one_microbatch_puts_them_one_after_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
