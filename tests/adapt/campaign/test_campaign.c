/* Campaigns whose totals are known by hand, and what holds for all. */
#include "random_problem.h"

#include "adapt/campaign/campaign.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

/* One pipeline whose ops all take 10 ms. */
static void open_campaign(int ranks, int microbatches, int replicas, int iterations, const char *schedule,
                          sl_campaign *c) {
    sl_problem p;
    assert_ok(sl_problem_make(ranks, ranks, microbatches, &p));
    for (int stage = 0; stage < ranks; stage++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            p.time[kind][stage] = 10 * SL_MS;
        p.time[SL_B][stage] = 20 * SL_MS;
    }
    assert_ok(sl_campaign_make(&p, c));
    sl_problem_free(&p);
    c->replicas = replicas;
    c->iterations = iterations;
    c->notice = 0; /* what one iteration shows is believed at its end */
    c->ladder.calm = 0;
    c->ladder.profile_every = 0;
    sl_free(c->schedule);
    sl_free(c->adapt_with);
    assert_ok(sl_copy_text(&c->schedule, schedule));
    assert_ok(sl_copy_text(&c->adapt_with, schedule));
}

static const sl_campaign_row *row_named(const sl_campaign_result *r, const char *name) {
    for (int i = 0; i < r->rows; i++)
        if (strcmp(r->row[i].name, name) == 0)
            return &r->row[i];
    fail_msg("no row '%s'", name);
    return NULL;
}

static sl_campaign_fault device(int64_t first, int64_t until, int a, double slowdown) {
    return (sl_campaign_fault){.kind = SL_FAULT_DEVICE,
                               .first = first,
                               .until = until,
                               .a = a,
                               .b = a,
                               .slowdown = slowdown,
                               .latency = -1,
                               .stop = -1};
}

static sl_campaign_fault link_of(int64_t first, int64_t until, int a, int b, sl_time latency,
                                 double slowdown) {
    return (sl_campaign_fault){.kind = SL_FAULT_LINK,
                               .first = first,
                               .until = until,
                               .a = a,
                               .b = b,
                               .slowdown = slowdown,
                               .latency = latency,
                               .stop = -1};
}

/* Every iteration stands in one stretch, one after the other, and times add up. */
static void check_row(const sl_campaign_result *r, const sl_campaign_row *row) {
    sl_time now = 0;
    int done = 0;
    for (size_t i = 0; i < row->stretches; i++) {
        const sl_campaign_stretch *s = &row->stretch[i];
        assert_int_equal(s->iteration, done);
        assert_true(s->start >= now - 1 && s->start <= now + 1);
        now = s->start + (s->count ? s->count * s->each : s->each);
        done += s->count;
    }
    assert_int_equal(done, r->iterations);
    assert_true(now >= row->total - 1000 && now <= row->total + 1000);
}

static void without_events_every_strategy_takes_the_plan_of_the_job(void **state) {
    (void)state;
    sl_campaign c;
    sl_campaign_result r;
    open_campaign(4, 12, 3, 50, "1f1b", &c);
    assert_ok(sl_campaign_run(&c, 1, &r));
    assert_int_equal(r.healthy, 450 * SL_MS); /* (12 + 3) microbatches of 30 ms */
    for (int i = 0; i < r.rows; i++) {
        assert_int_equal(r.row[i].total, 50 * 450 * SL_MS);
        assert_int_equal(r.row[i].paid, 0);
        assert_true(sl_campaign_recovered(&r, &r.row[i]) == 0);
        check_row(&r, &r.row[i]);
    }
    sl_campaign_result_free(&r);
    sl_campaign_free(&c);
}

/* A replica is one device: 4 microbatches of 30 ms; twice as long on one of two from iteration 10 to 30.
 * Iteration 10 shows it. Of 8 microbatches 3 and 5 take 180 and 150 ms, which is the least. Iteration 30
 * takes 150 ms and shows that it is over; the split goes back when keeping it has lost the 50 ms that it
 * costs: after two more that take 150 ms instead of 120. */
static void a_slow_device_is_balanced_and_the_split_goes_back(void **state) {
    (void)state;
    sl_campaign c;
    sl_campaign_result r;
    sl_campaign_fault f = device(10, 30, 0, 2);
    open_campaign(1, 4, 2, 50, "1f1b", &c);
    c.cost[SL_STRATEGY_BALANCE] = c.undo[SL_STRATEGY_BALANCE] = 50 * SL_MS;
    assert_ok(sl_campaign_add(&c, &f));
    assert_ok(sl_campaign_run(&c, 1, &r));
    assert_int_equal(row_named(&r, "ignore")->total, (30 * 120 + 20 * 240) * SL_MS);
    assert_int_equal(row_named(&r, "adapt")->total, (30 * 120 + 20 * 240) * SL_MS);
    const sl_campaign_row *balance = row_named(&r, "balance");
    assert_int_equal(balance->total, (10 * 120 + 240 + 50 + 19 * 180 + 3 * 150 + 50 + 17 * 120) * SL_MS);
    assert_int_equal(balance->paid, 100 * SL_MS);
    assert_int_equal(balance->applied[SL_STRATEGY_BALANCE], 1);
    assert_int_equal(balance->undone, 1);
    assert_int_equal(balance->worst, 240 * SL_MS);
    assert_says(balance->log, "device of rank 0 of replica 0: ops take 2.00 times as long");
    assert_says(balance->log, "time lost 50.0%, expected 33.3%");
    /* hindsight goes back at once */
    assert_int_equal(row_named(&r, "best in hindsight")->total, (30 * 120 + 20 * 180 + 100) * SL_MS);
    double recovered = (8400 - 7450) / (8400 - 6000.0);
    assert_true(sl_campaign_recovered(&r, balance) > recovered - 1e-12);
    assert_true(sl_campaign_recovered(&r, balance) < recovered + 1e-12);
    for (int i = 0; i < r.rows; i++)
        check_row(&r, &r.row[i]);
    sl_campaign_result_free(&r);
    sl_campaign_free(&c);
}

/* design.md: S = 4, N = 12, ops of 10 ms: 390 ms; 20 ms on the first link make 440 ms of it, adapted 410.
 * Messages that hold no rank are as fast with delegates: they only cost what they cost. */
static void a_slow_link_is_adapted_to(void **state) {
    (void)state;
    sl_campaign c;
    sl_campaign_result r;
    sl_campaign_fault f = link_of(10, SL_FAULT_LASTS, 0, 2, 20 * SL_MS, 1);
    open_campaign(4, 12, 2, 50, "adaptra", &c);
    assert_ok(sl_campaign_add(&c, &f));
    assert_ok(sl_campaign_run(&c, 0, &r));
    assert_int_equal(row_named(&r, "ignore")->total, (10 * 390 + 40 * 440) * SL_MS);
    assert_int_equal(row_named(&r, "adapt")->total, (10 * 390 + 440 + 50 + 39 * 410) * SL_MS);
    assert_int_equal(row_named(&r, "delegate")->total - row_named(&r, "ignore")->total,
                     row_named(&r, "delegate")->paid);
    /* with both, delegates come first, and what they brought is measured */
    assert_true(row_named(&r, "ladder")->total <= row_named(&r, "adapt")->total + (50 + 440 - 410) * SL_MS);
    sl_campaign_result_free(&r);
    sl_campaign_free(&c);
}

/* With notice, and in time: the fault of 1 s begins in iteration 8 (of 120 ms), so iteration 9 is the first
 * slow one; what is twice as long in two of the last three is believed. */
static void events_in_seconds_begin_with_the_next_iteration_and_are_believed_later(void **state) {
    (void)state;
    sl_campaign c;
    sl_campaign_result r;
    sl_campaign_fault f = device(SL_SECOND, SL_FAULT_LASTS, 0, 2);
    open_campaign(1, 4, 2, 0, "1f1b", &c);
    c.by_time = 1;
    c.duration = 6 * SL_SECOND;
    c.notice = 3;
    c.cost[SL_STRATEGY_BALANCE] = 50 * SL_MS;
    assert_ok(sl_campaign_add(&c, &f));
    assert_ok(sl_campaign_run(&c, 0, &r));
    assert_int_equal(r.iterations, 50);
    assert_int_equal(row_named(&r, "ignore")->total, (9 * 120 + 41 * 240) * SL_MS);
    assert_int_equal(row_named(&r, "balance")->total, (9 * 120 + 2 * 240 + 50 + 39 * 180) * SL_MS);
    sl_campaign_result_free(&r);
    sl_campaign_free(&c);
}

/* One device three times as slow for good: 240 of 360 ms are lost. 15 s after iteration 10 has shown it, in
 * the 42nd iteration from then, 10 s are lost, as a restart costs. */
static void a_restart_comes_when_as_much_is_lost_as_it_costs(void **state) {
    (void)state;
    sl_campaign c;
    sl_campaign_result r;
    sl_campaign_fault f = device(10, SL_FAULT_LASTS, 0, 3);
    open_campaign(1, 4, 1, 300, "1f1b", &c);
    c.cost[SL_STRATEGY_RESTART] = 10 * SL_SECOND;
    assert_ok(sl_campaign_add(&c, &f));
    assert_ok(sl_campaign_run(&c, 0, &r));
    sl_time best = (300 * 120 + 10000) * SL_MS;
    assert_int_equal(row_named(&r, "restart")->total, ((300 - 43) * 120 + 43 * 360 + 10000) * SL_MS);
    assert_int_equal(row_named(&r, "ladder")->total, row_named(&r, "restart")->total);
    assert_int_equal(row_named(&r, "best in hindsight")->total, best);
    sl_campaign_result_free(&r);
    sl_campaign_free(&c);
}

/* Rings of 2 replicas: 2 steps. 20 ms of reduction are steps of 10 ms; 4 times as long 80 ms, with 5 ms of
 * latency 30. Of gradients: 2 (1 ms + 30 MB / 2 at 1 ns a byte) = 32 ms. */
static void rings_wait_for_their_slowest_link(void **state) {
    (void)state;
    sl_campaign c;
    sl_campaign_result r;
    sl_campaign_fault slow = link_of(10, 20, 0, 1, -1, 4), far = link_of(30, 40, 0, 1, 5 * SL_MS, 1);
    open_campaign(1, 4, 2, 50, "1f1b", &c);
    c.problem.reduce[0] = 20 * SL_MS;
    assert_ok(sl_campaign_add(&c, &far));
    assert_ok(sl_campaign_add(&c, &slow));
    assert_int_equal(c.fault[0].first, 10); /* kept in order */
    assert_ok(sl_campaign_run(&c, 0, &r));
    assert_int_equal(r.healthy, 140 * SL_MS);
    assert_int_equal(row_named(&r, "ignore")->total, (30 * 140 + 10 * 200 + 10 * 150) * SL_MS);
    sl_campaign_result_free(&r);
    c.gradient = 30e6;
    c.ring_pace = 1;
    c.ring_latency = 1e6;
    assert_ok(sl_campaign_run(&c, 0, &r));
    assert_int_equal(r.healthy, 152 * SL_MS);
    /* 2 (1 + 60) and 2 (5 + 15) */
    assert_int_equal(row_named(&r, "ignore")->total, (30 * 152 + 10 * 242 + 10 * 160) * SL_MS);
    sl_campaign_result_free(&r);
    sl_campaign_free(&c);
}

/* Four devices, two replicas of two ranks; the ring of rank 0 has a slow link. Between stages it sends
 * nothing that takes time, so with another arrangement all is as if healthy. */
static void a_slow_link_of_a_ring_is_moved_to_where_it_matters_less(void **state) {
    (void)state;
    sl_campaign c;
    sl_campaign_result r;
    sl_campaign_fault f = link_of(10, SL_FAULT_LASTS, 0, 1, -1, 8);
    open_campaign(2, 8, 2, 1000, "1f1b", &c);
    c.problem.reduce[0] = c.problem.reduce[1] = 40 * SL_MS;
    c.cost[SL_STRATEGY_TOPOLOGY] = 2 * SL_SECOND;
    assert_ok(sl_campaign_add(&c, &f));
    assert_ok(sl_campaign_run(&c, 0, &r));
    const sl_campaign_row *row = row_named(&r, "topology");
    assert_int_equal(r.healthy, 310 * SL_MS); /* 9 x 30, and the ring of stage 0; that of 1 ended before */
    assert_int_equal(row_named(&r, "ignore")->total, (10 * 310 + 990 * 590) * SL_MS);
    assert_int_equal(row->applied[SL_STRATEGY_TOPOLOGY], 1);
    /* iteration 10 shows it; 2 s are lost when 280 of 590 ms are, 4.21 s later: 8 iterations */
    assert_int_equal(row->total, (991 * 310 + 9 * 590 + 2000) * SL_MS);
    sl_campaign_result_free(&r);
    sl_campaign_free(&c);
}

/* Falcon's figure 15 with cards: all that devices 0 and 1 of the ring of stage 1 send is 5 times as slow,
 * whose ring of 30 ms then takes 150. 4 ranks, 16 microbatches of 30 ms: stage 0 ends after 19 x 30 ms, stage
 * 3 before: after 3 F and 16 microbatches. There it costs least, and no layout has fewer slow rings than one.
 */
static void two_slow_cards_of_a_ring_are_moved_to_the_stage_that_ends_first(void **state) {
    (void)state;
    sl_campaign c;
    sl_campaign_result r;
    open_campaign(4, 16, 4, 400, "1f1b", &c);
    for (int stage = 0; stage < 4; stage++)
        c.problem.reduce[stage] = 30 * SL_MS;
    c.cost[SL_STRATEGY_TOPOLOGY] = SL_SECOND;
    sl_campaign_fault f = {.kind = SL_FAULT_NIC,
                           .first = 10,
                           .until = SL_FAULT_LASTS,
                           .a = 4, /* replicas 0 and 1 of rank 1 */
                           .b = 5,
                           .slowdown = 5,
                           .latency = -1,
                           .stop = -1};
    assert_ok(sl_campaign_add(&c, &f));
    assert_ok(sl_campaign_run(&c, 1, &r));
    const sl_campaign_row *row = row_named(&r, "topology");
    assert_int_equal(r.healthy, (19 * 30 + 30) * SL_MS);
    assert_int_equal(row_named(&r, "ignore")->worst, (19 * 30 - 20 + 150) * SL_MS);
    assert_int_equal(row->applied[SL_STRATEGY_TOPOLOGY], 1);
    assert_int_equal(row->stretch[row->stretches - 1].each, (3 * 10 + 16 * 30 + 150) * SL_MS);
    assert_says(row->log, "rank 1 replica 0 stage 1 150.00 30.00");
    assert_says(row->log, "rank 1 replica 1 stage 1 150.00 30.00");
    sl_campaign_result_free(&r);
    sl_campaign_free(&c);
}

static void a_lost_nic_stops_only_who_has_no_delegates(void **state) {
    (void)state;
    sl_campaign c;
    sl_campaign_result r;
    sl_campaign_fault f = {
        .kind = SL_FAULT_STOP, .first = 20, .until = SL_FAULT_LASTS, .is_rail = 1, .stop = 7 * SL_SECOND};
    open_campaign(2, 8, 1, 50, "1f1b", &c);
    assert_ok(sl_campaign_add(&c, &f));
    f.is_rail = 0;
    f.first = 30;
    assert_ok(sl_campaign_add(&c, &f));
    assert_ok(sl_campaign_run(&c, 0, &r));
    assert_int_equal(row_named(&r, "ignore")->total, (50 * 270 + 14000) * SL_MS);
    assert_int_equal(row_named(&r, "delegate")->total, (50 * 270 + 7050) * SL_MS);
    assert_int_equal(row_named(&r, "ladder")->total, (50 * 270 + 7050) * SL_MS);
    assert_int_equal(row_named(&r, "ladder")->stops, 2);
    assert_int_equal(row_named(&r, "best in hindsight")->total, (50 * 270 + 7050) * SL_MS);
    sl_campaign_result_free(&r);
    sl_campaign_free(&c);
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    sl_campaign c;
    sl_campaign_result r;
    open_campaign(2, 4, 2, 50, "1f1b", &c);
    sl_campaign_fault wrong[] = {device(10, 10, 0, 2),          device(-1, 10, 0, 2),  device(1, 10, 4, 2),
                                 device(1, 10, -1, 2),          device(1, 10, 0, 0.5), device(1, 10, 0, NAN),
                                 link_of(1, 10, 1, 1, SL_MS, 1)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(sl_campaign_add(&c, &wrong[i]), SL_EINVAL);
    c.iterations = 0;
    assert_int_equal(sl_campaign_run(&c, 0, &r), SL_EINVAL);
    sl_campaign_result_free(&r);
    sl_campaign_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_events_every_strategy_takes_the_plan_of_the_job),
        cmocka_unit_test(a_slow_device_is_balanced_and_the_split_goes_back),
        cmocka_unit_test(a_slow_link_is_adapted_to),
        cmocka_unit_test(events_in_seconds_begin_with_the_next_iteration_and_are_believed_later),
        cmocka_unit_test(a_restart_comes_when_as_much_is_lost_as_it_costs),
        cmocka_unit_test(rings_wait_for_their_slowest_link),
        cmocka_unit_test(a_slow_link_of_a_ring_is_moved_to_where_it_matters_less),
        cmocka_unit_test(two_slow_cards_of_a_ring_are_moved_to_the_stage_that_ends_first),
        cmocka_unit_test(a_lost_nic_stops_only_who_has_no_delegates),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
