/* What is slow is found, with its size, and what was healthy is known. */
#include "adapt/orchestrator/steady_job.h"

/* A device that takes twice as long is named within the window, once, and so is its recovery. */
static void a_slow_device_is_named(void **state) {
    (void)state;
    steady_job j;
    open_job(&j, SCHEDULE);
    int onset = -1, relief = -1;
    for (int i = 0; i < 60; i++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            j.now[0].time[kind][2] = j.healthy.time[kind][2] * (i >= 20 && i < 40 ? 2 : 1);
        observe(&j, 1);
        const sl_event *e = event_of(&j, SL_EVENT_ONSET);
        if (e) {
            assert_int_equal(onset, -1);
            assert_int_equal(e->rank, 2);
            onset = i;
        }
        e = event_of(&j, SL_EVENT_RELIEF);
        if (e) {
            assert_int_equal(relief, -1);
            assert_int_equal(e->rank, 2);
            relief = i;
        }
    }
    assert_in_range(onset, 20, 20 + HOLD - 1);
    assert_in_range(relief, 40, 40 + HOLD - 1);
    close_job(&j);
}

/* Only watched, with sums over two replicas of 6 ms. */
static void open_watched(steady_job *j, int microbatches) {
    make_job(j, 2);
    j->config.can = 0;
    j->healthy.microbatches = microbatches;
    for (int stage = 0; stage < RANKS; stage++)
        j->healthy.reduce[stage] = 6 * SL_MS;
    plan_and_start(j, "adaptra");
}

static const sl_incident_view *incident_of(const steady_job *j, sl_part_kind kind, int stage) {
    int count;
    const sl_incident_view *all = sl_orchestrator_incidents(j->orchestrator, &count);
    for (int i = 0; i < count; i++)
        if (all[i].part.kind == kind && all[i].stage == stage)
            return &all[i];
    return NULL;
}

static int incidents_of(const steady_job *j) {
    int count;
    (void)sl_orchestrator_incidents(j->orchestrator, &count);
    return count;
}

static int process(const steady_job *j, int rank, int replica) {
    return sl_job_position(&j->config.job, rank, replica, 0);
}

static void each_component_that_is_slow_is_found_with_what_it_takes(void **state) {
    (void)state;
    steady_job j;
    open_watched(&j, 12);
    observe(&j, HOLD);
    assert_int_equal(incidents_of(&j), 0);
    make_rank_slow(&j.now[0], 2, 150);
    j.now[0].link[1 * RANKS + 0].latency = 60 * SL_MS; /* one direction only; both ways as 30 ms each */
    j.now[0].reduce[3] = j.now[1].reduce[3] = 40 * SL_MS;
    observe(&j, HOLD);
    assert_int_equal(incidents_of(&j), 3);
    const sl_incident_view *v = incident_of(&j, SL_PART_DEVICE, -1);
    assert_non_null(v);
    assert_int_equal(v->part.a, process(&j, 2, 0));
    assert_near(v->growth, 1.5, 1e-9);
    assert_near(v->part.slowdown, 1.5, 1e-9);
    assert_in_range(v->since, HOLD, HOLD + 2);
    v = incident_of(&j, SL_PART_LINK, -1);
    assert_non_null(v);
    assert_int_equal(v->part.a, process(&j, 0, 0));
    assert_int_equal(v->part.b, process(&j, 1, 0));
    assert_near(v->part.latency[0], 0, 0);
    assert_near(v->part.latency[1], 60 * SL_MS, 0);
    assert_near(v->growth, 60 * SL_MS, 0);
    v = incident_of(&j, SL_PART_LINK, 3);
    assert_non_null(v);
    assert_int_equal(v->part.a, process(&j, 3, 0));
    assert_int_equal(v->part.b, process(&j, 3, 1));
    assert_near(v->growth, 34 * SL_MS, 0);
    close_job(&j);
}

/* A tenth is the least for a device; one slow iteration of five is no incident. */
static void small_growth_and_single_spikes_are_no_incidents(void **state) {
    (void)state;
    steady_job j;
    open_watched(&j, 12);
    observe(&j, HOLD);
    make_rank_slow(&j.now[0], 0, 109);
    observe(&j, HOLD);
    assert_int_equal(incidents_of(&j), 0);
    make_rank_slow(&j.now[0], 0, 300);
    observe(&j, 1);
    assert_int_equal(incidents_of(&j), 0);
    close_job(&j);
}

/* What is half as long again or more costs much in every iteration that passes: two of three are enough, and
 * the same when it is over. What is less waits for the median of all five. */
static void what_is_much_slower_is_found_after_two_iterations(void **state) {
    (void)state;
    steady_job j;
    open_watched(&j, 12);
    observe(&j, HOLD);
    j.now[0].link[1 * RANKS + 0].latency = 60 * SL_MS;
    make_rank_slow(&j.now[0], 2, 140);
    observe(&j, 1);
    assert_int_equal(incidents_of(&j), 0);
    observe(&j, 1);
    assert_int_equal(incidents_of(&j), 1);
    assert_non_null(incident_of(&j, SL_PART_LINK, -1));
    observe(&j, 1);
    assert_int_equal(incidents_of(&j), 2);
    assert_non_null(incident_of(&j, SL_PART_DEVICE, -1));
    observe(&j, HOLD);
    j.now[0].link[1 * RANKS + 0].latency = 0;
    observe(&j, 2);
    assert_int_equal(incidents_of(&j), 1);
    assert_non_null(incident_of(&j, SL_PART_DEVICE, -1));
    close_job(&j);
}

/* Replicas that got slow hosts: what is slow from the first iteration of a new layout on is found all the
 * same. A layout may also change before what is healthy is known. */
static void what_is_healthy_is_known_after_a_change_of_layout(void **state) {
    (void)state;
    static const int split[REPLICAS] = {8, 16};
    for (int before = 2; before <= HOLD; before += HOLD - 2) {
        steady_job j;
        sl_problem usual;
        sl_plan share[REPLICAS];
        const sl_plan *plan[REPLICAS];
        sl_job_layout layout;
        open_watched(&j, 12);
        assert_int_equal(sl_orchestrator_question(j.orchestrator, 0, &usual), SL_ENONE);
        observe(&j, before);
        for (int r = 0; r < REPLICAS; r++) {
            sl_problem own = j.healthy;
            own.microbatches = j.now[r].microbatches = split[r];
            assert_ok(sl_plan_make(&own, "adaptra", &share[r]));
            plan[r] = &share[r];
        }
        assert_ok(sl_job_layout_make(&j.config.job, split, &layout));
        assert_ok(sl_orchestrator_moved(j.orchestrator, &layout, plan));
        if (before < HOLD)
            observe(&j, HOLD);
        assert_int_equal(incidents_of(&j), 0);
        make_rank_slow(&j.now[0], 1, 300); /* 8 x 90 ms are more than 16 x 30 */
        observe(&j, HOLD);
        assert_int_equal(incidents_of(&j), 1);
        const sl_incident_view *v = incident_of(&j, SL_PART_DEVICE, -1);
        assert_non_null(v);
        assert_int_equal(v->part.a, process(&j, 1, 0));
        assert_near(v->growth, 3, 1e-9);
        assert_ok(sl_orchestrator_question(j.orchestrator, 0, &usual));
        assert_int_equal(usual.time[SL_F][1], 30 * SL_MS);
        assert_int_equal(usual.microbatches, 8);
        sl_problem_free(&usual);
        for (int r = 0; r < REPLICAS; r++)
            sl_plan_free(&share[r]);
        sl_job_layout_free(&layout);
        close_job(&j);
    }
}

/* By arithmetic: on free links the first plan takes 390 ms and its reductions; a rank that is twice as slow
 * works for 12 x 60 ms alone. */
static void what_the_running_order_takes_next_is_foretold(void **state) {
    (void)state;
    steady_job j;
    sl_time takes;
    open_watched(&j, 12);
    assert_ok(sl_orchestrator_forecast(j.orchestrator, 0, &takes));
    assert_int_equal(takes, j.first.makespan);
    observe(&j, HOLD);
    assert_ok(sl_orchestrator_forecast(j.orchestrator, 0, &takes));
    assert_int_equal(takes, j.first.makespan);
    make_rank_slow(&j.now[0], 3, 200);
    observe(&j, HOLD);
    assert_ok(sl_orchestrator_forecast(j.orchestrator, 0, &takes));
    assert_true(takes >= 720 * SL_MS);
    assert_int_equal(takes, j.takes);
    assert_ok(sl_orchestrator_forecast(j.orchestrator, 1, &takes));
    assert_int_equal(takes, j.first.makespan);
    close_job(&j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_device_is_named),
        cmocka_unit_test(each_component_that_is_slow_is_found_with_what_it_takes),
        cmocka_unit_test(small_growth_and_single_spikes_are_no_incidents),
        cmocka_unit_test(what_is_much_slower_is_found_after_two_iterations),
        cmocka_unit_test(what_is_healthy_is_known_after_a_change_of_layout),
        cmocka_unit_test(what_the_running_order_takes_next_is_foretold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
