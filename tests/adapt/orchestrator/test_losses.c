/* How much of an iteration's time each slow component is blamed for. */
#include "adapt/orchestrator/steady_job.h"

static double loss_of_the_only_incident(const steady_job *j) {
    int count;
    const sl_incident_view *all = sl_orchestrator_incidents(j->orchestrator, &count);
    assert_int_equal(count, 1);
    return all[0].loss;
}

/* GPipe takes 15 x 30 ms: 450 ms, and twice the delay of a link. 20 ms on a link make it 490. */
static void open_gpipe(steady_job *j) {
    make_job(j, 1);
    j->config.can = 0;
    plan_and_start(j, "gpipe");
    observe(j, 2 * HOLD);
    assert_int_equal(j->takes, 450 * SL_MS);
    set_delay(j, 20);
    observe(j, 2 * HOLD);
    assert_int_equal(j->takes, 490 * SL_MS);
}

static void a_slow_link_is_blamed_for_what_it_costs(void **state) {
    (void)state;
    steady_job j;
    open_gpipe(&j);
    assert_near(loss_of_the_only_incident(&j), 40.0 / 490, 1e-3);
    close_job(&j);
}

/* The user makes it run GPipe: 450 ms instead of 390, for which no component is to blame. A link of 10 ms
 * makes it 470, costs 20 of them, and is blamed for no more than twice that. */
static void no_component_is_blamed_for_more_than_twice_its_cost(void **state) {
    (void)state;
    steady_job j;
    sl_plan gpipe;
    make_job(&j, 1);
    j.config.can = 0;
    plan_and_start(&j, "adaptra");
    observe(&j, 2 * HOLD);
    assert_int_equal(j.takes, 390 * SL_MS);
    assert_ok(sl_plan_make(&j.healthy, "gpipe", &gpipe));
    const sl_plan *const plans[] = {&gpipe};
    assert_ok(sl_orchestrator_moved(j.orchestrator, sl_orchestrator_layout(j.orchestrator), plans));
    set_delay(&j, 10);
    observe(&j, 2 * HOLD);
    assert_int_equal(j.takes, 470 * SL_MS);
    assert_near(loss_of_the_only_incident(&j), 40.0 / 470, 1e-3);
    sl_plan_free(&gpipe);
    close_job(&j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_link_is_blamed_for_what_it_costs),
        cmocka_unit_test(no_component_is_blamed_for_more_than_twice_its_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
