/* Whole watched jobs on a virtual clock (fleet.h): faults of the job and of what watches it, from a seed. */
#include "check.h"
#include "fleet.h"

static void every_promise_holds(uint64_t first, int count) {
    int bad = 0;
    for (int i = 0; i < count; i++) {
        const fleet_plan plan = fleet_plan_of(first + (uint64_t)i, 0);
        fleet_result result;
        char text[600];
        fleet_run(&plan, 0, &result);
        if (!result.broken)
            continue;
        fleet_plan_text(&plan, text, sizeof text);
        printf("%s\n    %s\n", text, result.why);
        bad++;
    }
    if (bad)
        fail_msg("%d of %d seeds from %llu break a promise", bad, count, (unsigned long long)first);
}

static void small_jobs_with_any_fault_keep_every_promise(void **state) {
    (void)state;
    const char *text = getenv("SL_SEED");
    uint64_t first = text ? strtoull(text, NULL, 0) : 1;
    printf("seeds from %llu\n", (unsigned long long)first);
    every_promise_holds(first, text ? 1 : cases(40));
}

/* Clocks are asked in turns: a reference that is taken before the last turn lacks the ranks of those nodes. */
static void each_of_many_nodes_is_in_the_healthy_reference(void **state) {
    (void)state;
    for (int node = 100; node < 384; node += 100) {
        fleet_plan plan = fleet_plan_of(1, 384);
        fleet_result result;
        plan.per_node = 1;
        plan.fault[0].node = node;
        assert_true(plan.clocks && plan.fault[0].kind == FLEET_SLOW_HOST && plan.faults == 1);
        fleet_run(&plan, 0, &result);
        if (result.broken || !result.named)
            fail_msg("node %d is not named: %s", node, result.broken ? result.why : "abstained");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_jobs_with_any_fault_keep_every_promise),
                                       cmocka_unit_test(each_of_many_nodes_is_in_the_healthy_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
