/* The cut and the gate on simulated programs: every hold closes or is released, no deadlock, no changed
 * order, and the naive rule as the counter-example. SL_SEED gives one program, SL_SEEDS how many. */
#include "check.h"
#include "simulated_job.h"

#ifndef SEEDS
#define SEEDS 500
#endif

static job *the_job;

static uint64_t number_of(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static int64_t free_time(uint64_t seed, uint64_t *hash) {
    outcome alone = run_job(the_job, seed, (plan){0});
    if (alone.failed)
        fail_msg("seed %llu unheld: %s", (unsigned long long)seed, alone.why);
    *hash = alone.hash;
    return alone.time;
}

/* SL_SHOW=1 names every program with a hold that was released. */
static void run_seeds(uint64_t first, uint64_t seeds, plan how, outcome *sum) {
    printf("seeds %llu to %llu\n", (unsigned long long)first, (unsigned long long)(first + seeds - 1));
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        uint64_t hash;
        int64_t time = free_time(seed, &hash);
        how.hold_from = 1 + (int64_t)(sl_random_mix(seed ^ 77) % (uint64_t)time);
        outcome one = run_job(the_job, seed, how);
        if (one.failed)
            fail_msg("seed %llu: %s", (unsigned long long)seed, one.why);
        if (one.hash != hash)
            fail_msg("seed %llu: the result has changed", (unsigned long long)seed);
        if (one.released && getenv("SL_SHOW"))
            printf("seed %llu released: %s\n", (unsigned long long)seed, one.why);
        sum->holds += one.holds;
        sum->closed += one.closed;
        sum->released += one.released;
        sum->killed += one.killed;
        sum->ended += one.ended;
        sum->longest = one.longest > sum->longest ? one.longest : sum->longest;
    }
    printf("%d holds: %d closed (longest after %.3f ms), %d released, %d killed, %d at the program's end\n",
           sum->holds, sum->closed, (double)sum->longest / 1e6, sum->released, sum->killed, sum->ended);
}

static void each_seed(plan how, outcome *sum) {
    run_seeds(number_of("SL_SEED", 1), number_of("SL_SEEDS", getenv("SL_SEED") ? 1 : SEEDS), how, sum);
}

static void every_hold_closes_and_changes_nothing(void **state) {
    (void)state;
    outcome sum = {0};
    each_seed((plan){.holds = 3}, &sum);
    assert_int_equal(sum.released, 0);
    assert_true(sum.closed > 0);
}

/* Seed 25896: a thread that both looks saw outside has received, within the cut, before the verdict, and
 * sends, within the cut, after it. */
static void a_thread_outside_may_make_several_calls_within_the_cut(void **state) {
    (void)state;
    outcome sum = {0};
    run_seeds(25896, 1, (plan){.holds = 3}, &sum);
    assert_int_equal(sum.closed, 3);
}

static void a_killed_controller_stops_nobody(void **state) {
    (void)state;
    outcome sum = {0};
    each_seed((plan){.holds = 3, .kill = 1}, &sum);
    if (!getenv("SL_SEED"))
        assert_true(sum.killed > 0);
}

/* The maximum of the counters alone, kept for ever, is not a cut. */
static void the_maximum_of_the_counters_alone_does_not_close(void **state) {
    (void)state;
    outcome sum = {0};
    each_seed((plan){.holds = 1, .naive = 1, .limit = 20 * MS}, &sum);
    if (!getenv("SL_SEED")) /* of one program nothing is promised */
        assert_true(sum.released > sum.holds / 10);
}

int main(void) {
    the_job = calloc(1, sizeof *the_job);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_hold_closes_and_changes_nothing),
        cmocka_unit_test(a_thread_outside_may_make_several_calls_within_the_cut),
        cmocka_unit_test(a_killed_controller_stops_nobody),
        cmocka_unit_test(the_maximum_of_the_counters_alone_does_not_close),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(the_job);
    return failed;
}
