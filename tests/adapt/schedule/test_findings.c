/* What is slow in a pipeline, piece by piece. 4 ranks, 12 microbatches, F=I=W=10 ms: 390 ms an iteration. */
#include "check.h"

#include "adapt/schedule/findings.h"
#include "base/memory.h"

enum { HOLD = 5, MOST = 8 };

typedef struct job {
    sl_problem healthy, now;
    sl_plan first;
    sl_adaptation *adaptation;
} job;

static void open_adaptation(job *j) {
    sl_adaptation_config config = {
        .schedule = "adaptra", .hold = HOLD, .dwell = 20, .gain = 0.02, .frozen = 1, .swap_cost = 5 * SL_MS};
    assert_ok(sl_adaptation_open(&config, &j->healthy, &j->first, &j->adaptation));
}

static void open_job(job *j, int microbatches) {
    assert_ok(sl_problem_make(4, 4, microbatches, &j->healthy));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        for (int stage = 0; stage < 4; stage++)
            j->healthy.time[kind][stage] = (kind == SL_B ? 20 : 10) * SL_MS;
    for (int stage = 0; stage < 4; stage++)
        j->healthy.reduce[stage] = 6 * SL_MS;
    assert_ok(sl_problem_copy(&j->healthy, &j->now));
    assert_ok(sl_plan_make(&j->healthy, "adaptra", &j->first));
    open_adaptation(j);
}

static void close_job(job *j) {
    sl_adaptation_close(j->adaptation);
    sl_plan_free(&j->first);
    sl_problem_free(&j->healthy);
    sl_problem_free(&j->now);
}

static void observe(job *j, int first, int count) {
    for (int i = first; i < first + count; i++) {
        sl_decision d;
        assert_ok(sl_adaptation_observe(j->adaptation, i, &j->now, &d));
    }
}

static void make_rank_slow(sl_problem *p, int stage, int percent) {
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        p->time[kind][stage] = p->time[kind][stage] * percent / 100;
}

static void each_piece_that_is_slow_is_found_with_what_it_takes(void **state) {
    (void)state;
    job j;
    sl_finding found[MOST];
    int count;
    open_job(&j, 12);
    observe(&j, 0, HOLD);
    assert_ok(sl_adaptation_findings(j.adaptation, found, MOST, &count));
    assert_int_equal(count, 0);
    make_rank_slow(&j.now, 2, 150);
    j.now.link[1 * 4 + 0].latency = 20 * SL_MS; /* one direction only */
    j.now.reduce[3] = 40 * SL_MS;
    observe(&j, HOLD, HOLD);
    assert_ok(sl_adaptation_findings(j.adaptation, found, MOST, &count));
    assert_int_equal(count, 3);
    assert_int_equal(found[0].kind, SL_FINDING_DEVICE);
    assert_int_equal(found[0].rank, 2);
    assert_int_equal(found[0].healthy, 30 * SL_MS);
    assert_int_equal(found[0].now, 45 * SL_MS);
    assert_int_equal(found[1].kind, SL_FINDING_LINK);
    assert_int_equal(found[1].from, 1);
    assert_int_equal(found[1].to, 0);
    assert_int_equal(found[1].now - found[1].healthy, 20 * SL_MS);
    assert_int_equal(found[2].kind, SL_FINDING_REDUCTION);
    assert_int_equal(found[2].stage, 3);
    assert_int_equal(found[2].now, 40 * SL_MS);
    close_job(&j);
}

/* A tenth is the least for a device; one slow iteration of five is no finding. */
static void noise_and_single_spikes_are_no_findings(void **state) {
    (void)state;
    job j;
    sl_finding found[MOST];
    int count;
    open_job(&j, 12);
    observe(&j, 0, HOLD);
    make_rank_slow(&j.now, 0, 109);
    observe(&j, HOLD, HOLD);
    assert_ok(sl_adaptation_findings(j.adaptation, found, MOST, &count));
    assert_int_equal(count, 0);
    make_rank_slow(&j.now, 0, 300);
    observe(&j, 2 * HOLD, 1);
    assert_ok(sl_adaptation_findings(j.adaptation, found, MOST, &count));
    assert_int_equal(count, 0);
    close_job(&j);
}

/* What is half as long again or more costs much in every iteration that passes: two of three are enough, and
 * the same when it is over. What is less waits for the median of all five. */
static void what_is_much_slower_is_found_after_two_iterations(void **state) {
    (void)state;
    job j;
    sl_finding found[MOST];
    int count;
    open_job(&j, 12);
    observe(&j, 0, HOLD);
    j.now.link[1 * 4 + 0].latency = 20 * SL_MS;
    make_rank_slow(&j.now, 2, 140);
    observe(&j, HOLD, 2);
    assert_ok(sl_adaptation_findings(j.adaptation, found, MOST, &count));
    assert_int_equal(count, 1);
    assert_int_equal(found[0].kind, SL_FINDING_LINK);
    assert_int_equal(found[0].now, 20 * SL_MS);
    observe(&j, HOLD + 2, 1);
    assert_ok(sl_adaptation_findings(j.adaptation, found, MOST, &count));
    assert_int_equal(count, 2);
    assert_int_equal(found[0].kind, SL_FINDING_DEVICE);
    observe(&j, HOLD + 3, HOLD);
    j.now.link[1 * 4 + 0].latency = 0;
    observe(&j, 2 * HOLD + 3, 2);
    assert_ok(sl_adaptation_findings(j.adaptation, found, MOST, &count));
    assert_int_equal(count, 1);
    assert_int_equal(found[0].kind, SL_FINDING_DEVICE);
    close_job(&j);
}

/* Replicas that got slow hosts begin a new adaptation: what is slow from its first iteration on is found all
 * the same. */
static void what_is_healthy_can_be_told_to_an_adaptation_that_begins_in_trouble(void **state) {
    (void)state;
    job j;
    sl_problem healthy, usual;
    sl_finding found[MOST];
    int count;
    open_job(&j, 12);
    assert_null(sl_adaptation_healthy(j.adaptation));
    assert_int_equal(sl_adaptation_typical(j.adaptation, &usual), SL_ENONE);
    observe(&j, 0, HOLD);
    assert_ok(sl_problem_copy(sl_adaptation_healthy(j.adaptation), &healthy));
    close_job(&j);
    open_job(&j, 8); /* and has fewer microbatches now */
    assert_ok(sl_adaptation_assume(j.adaptation, &healthy));
    make_rank_slow(&j.now, 1, 200);
    observe(&j, 0, HOLD);
    assert_ok(sl_adaptation_findings(j.adaptation, found, MOST, &count));
    assert_int_equal(count, 1);
    assert_int_equal(found[0].rank, 1);
    assert_int_equal(found[0].now, 60 * SL_MS);
    assert_int_equal(sl_adaptation_healthy(j.adaptation)->microbatches, 8);
    assert_ok(sl_adaptation_typical(j.adaptation, &usual));
    assert_int_equal(usual.time[SL_F][1], 20 * SL_MS);
    sl_problem_free(&usual);
    sl_problem_free(&healthy);
    assert_ok(sl_problem_make(3, 3, 8, &healthy));
    assert_int_equal(sl_adaptation_assume(j.adaptation, &healthy), SL_EINVAL);
    sl_problem_free(&healthy);
    close_job(&j);
}

/* By arithmetic: on free links the first plan takes 390 ms and its reductions; a rank that is twice as slow
 * works for 12 x 60 ms alone. */
static void the_running_order_can_be_asked_what_it_would_take(void **state) {
    (void)state;
    job j;
    sl_time takes;
    open_job(&j, 12);
    make_rank_slow(&j.now, 3, 200);
    assert_ok(sl_adaptation_takes(j.adaptation, &j.now, &takes));
    assert_true(takes >= 720 * SL_MS);
    assert_ok(sl_adaptation_takes(j.adaptation, &j.healthy, &takes));
    assert_int_equal(takes, j.first.makespan);
    close_job(&j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_piece_that_is_slow_is_found_with_what_it_takes),
        cmocka_unit_test(noise_and_single_spikes_are_no_findings),
        cmocka_unit_test(what_is_much_slower_is_found_after_two_iterations),
        cmocka_unit_test(what_is_healthy_can_be_told_to_an_adaptation_that_begins_in_trouble),
        cmocka_unit_test(the_running_order_can_be_asked_what_it_would_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
