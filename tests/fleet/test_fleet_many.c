/* labels: slow */
/* More whole watched jobs on a virtual clock than test_fleet.c tries. */
#include "check.h"
#include "fleet.h"

static void keep_promises(int first, int count, int ranks) {
    for (int i = 0; i < count; i++) {
        const fleet_plan plan = fleet_plan_of((uint64_t)(first + i), ranks);
        fleet_result result;
        char text[600];
        fleet_run(&plan, 0, &result);
        fleet_plan_text(&plan, text, sizeof text);
        if (result.broken)
            fail_msg("%s\n    %s", text, result.why);
    }
}

static void thousands_of_small_jobs_keep_every_promise(void **state) {
    (void)state;
    printf("seeds from 1000\n");
    keep_promises(1000, cases(2000), 0);
}

static void jobs_of_a_thousand_ranks_keep_every_promise(void **state) {
    (void)state;
    keep_promises(1, cases(30) / 10, 1024);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(thousands_of_small_jobs_keep_every_promise),
                                       cmocka_unit_test(jobs_of_a_thousand_ranks_keep_every_promise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
