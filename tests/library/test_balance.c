/* Splits of microbatches through the public interface. */
#include "library/check_library.h"

static void replicas_are_balanced_by_their_times(void **state) {
    (void)state;
    slackline_replica replica[] = {{7, 0, 0}, {11, 0, 0}};
    int split[2];
    double makespan;
    works(slackline_balance(replica, 2, 4, split, &makespan));
    assert_int_equal(split[0], 3);
    assert_int_equal(split[1], 1);
    assert_true(makespan == 21);
    replica[0].limit = 2;
    works(slackline_balance(replica, 2, 4, split, NULL));
    assert_int_equal(split[0], 2);
    assert_int_equal(slackline_balance(replica, 2, 1, split, NULL), SLACKLINE_NO_ANSWER);
    refuses(slackline_balance(replica, 2, -1, split, NULL), "microbatches must be");
    refuses(slackline_balance(replica, 0, 4, split, NULL), "replicas must be");
    replica[1].time = 0;
    refuses(slackline_balance(replica, 2, 4, split, NULL), "time of replica 1");
}

/* 4 even ranks under 1F1B: 30 (m + 3) ms and 45 (m + 3) ms. */
static void pipelines_are_balanced_by_their_plans(void **state) {
    (void)state;
    slackline_problem *fast, *slow;
    int split[2];
    int64_t time[2];
    works(slackline_problem_make(SLACKLINE_LINEAR, 4, 0, 1, &fast));
    for (int stage = 0; stage < 4; stage++)
        for (int kind = SLACKLINE_F; kind <= SLACKLINE_W; kind++)
            works(slackline_problem_set_time(fast, stage, (slackline_kind)kind, 10 * ms));
    works(slackline_problem_copy(fast, &slow));
    for (int stage = 0; stage < 4; stage++)
        for (int kind = SLACKLINE_F; kind <= SLACKLINE_W; kind++)
            works(slackline_problem_set_time(slow, stage, (slackline_kind)kind, 15 * ms));
    const slackline_problem *const both[] = {fast, slow};
    works(slackline_balance_pipelines(both, 2, 20, "1f1b", NULL, split, time));
    assert_int_equal(split[0], 13);
    assert_int_equal(split[1], 7);
    assert_int_equal(time[0], 480 * ms);
    assert_int_equal(time[1], 450 * ms);
    works(slackline_balance_pipelines(both, 2, 20, "1f1b", (const int[]){11, 0}, split, NULL));
    assert_int_equal(split[0], 11);
    refuses(slackline_balance_pipelines(both, 2, 20, "fastest", NULL, split, NULL), "'fastest'");
    assert_int_equal(slackline_balance_pipelines(both, 2, 20, "1f1b", (const int[]){5, 5}, split, NULL),
                     SLACKLINE_NO_ANSWER);
    slackline_problem_free(fast);
    slackline_problem_free(slow);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_are_balanced_by_their_times),
        cmocka_unit_test(pipelines_are_balanced_by_their_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
