/* Faults in jobs of 8 ranks on the virtual clock, at random: the slow component is named, or it is said that
 * it cannot be told, never another one. bench/localisation runs the whole campaign. */
#include "check.h"

#include "virtual_job.h"

enum { CASES = 12 };

static void a_campaign_of_random_faults_names_nothing_that_is_healthy(void **state) {
    (void)state;
    const char *given = getenv("SL_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 7;
    int verdicts[5] = {0};
    printf("SL_SEED=%llu\n", (unsigned long long)seed);
    for (int number = 0; number < CASES; number++) {
        job j;
        job_outcome out;
        job_kind kind;
        assert_ok(job_case(seed, number, &j, &kind, &out));
        job_verdict v = job_judge(&j, kind, &out);
        printf("case %d, %d x %d, %s: %s\n", number, j.ranks, j.replicas, job_kinds[kind], job_verdicts[v]);
        verdicts[v]++;
        assert_int_not_equal(v, JOB_WRONG);
        assert_int_not_equal(v, JOB_MISSED);
    }
    assert_true(verdicts[JOB_RIGHT] >= CASES - 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_campaign_of_random_faults_names_nothing_that_is_healthy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
