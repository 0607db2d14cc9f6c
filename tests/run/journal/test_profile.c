/* What a run measured of itself as a problem: medians of iterations like each other, links told by latency
 * and bandwidth, and what is predicted from it. */
#include "check.h"

#include "plan/search/plan.h"
#include "run/journal/run_profile.h"

enum { RANKS = 2 };

static void make(sl_problem *p, int op_ms, int link_ms) {
    assert_ok(sl_problem_make(RANKS, RANKS, 4, p));
    for (int stage = 0; stage < RANKS; stage++) {
        p->time[SL_F][stage] = p->time[SL_I][stage] = p->time[SL_W][stage] = op_ms * SL_MS;
        p->time[SL_B][stage] = 2 * op_ms * SL_MS;
    }
    p->link[1].latency = p->link[2].latency = link_ms * SL_MS;
}

static void add(sl_profiler *profiler, int iteration, uint64_t conditions, int op_ms, int link_ms) {
    sl_problem p;
    make(&p, op_ms, link_ms);
    assert_ok(
        sl_profiler_add(profiler, conditions, &p, op_ms * 12 * SL_MS, op_ms * 12 * SL_MS, iteration * SL_MS));
    sl_problem_free(&p);
}

static void profile_is(const sl_profiler *profiler, int count, int op_ms, int link_ms) {
    sl_problem p;
    assert_int_equal(sl_profiler_count(profiler), count);
    assert_ok(sl_profiler_problem(profiler, &p));
    assert_int_equal(p.time[SL_F][0], op_ms * SL_MS);
    assert_int_equal(p.time[SL_B][1], 2 * op_ms * SL_MS);
    assert_int_equal(p.link[1].latency + p.link[1].transfer, link_ms * SL_MS);
    assert_int_equal(sl_profiler_makespan(profiler), op_ms * 12 * SL_MS);
    sl_problem_free(&p);
}

static void medians_of_the_last_iterations_without_the_first(void **state) {
    (void)state;
    sl_profiler *p;
    sl_problem problem;
    assert_ok(sl_profiler_open(NULL, RANKS, 0, 1, &p));
    assert_fails(sl_profiler_problem(p, &problem), SL_EINVAL, "no iteration has been measured");
    add(p, 0, 1, 50, 0);
    profile_is(p, 1, 50, 0); /* all that there is */
    static const int ms[] = {11, 9, 10, 13, 10};
    for (int i = 0; i < 5; i++)
        add(p, 1 + i, 1, ms[i], 0);
    profile_is(p, 5, 10, 0); /* 9 10 10 11 13 */
    assert_int_equal(sl_profiler_update(p), 3 * SL_MS);
    for (int i = 0; i < 20; i++)
        add(p, 6 + i, 1, 12, 0);
    profile_is(p, SL_PROFILE_WINDOW, 12, 0); /* the earlier ones are forgotten */
    sl_profiler_close(p);
}

/* Without a pace only links do: ops that share cores vary. */
static void ops_without_a_pace_may_vary(void **state) {
    (void)state;
    sl_profiler *p;
    assert_ok(sl_profiler_open(NULL, RANKS, 0, 0, &p));
    static const int ms[] = {90, 8, 30, 12, 19, 10};
    for (int i = 0; i < 6; i++)
        add(p, i, 1, ms[i], 0);
    profile_is(p, 5, 12, 0); /* 8 10 12 19 30 */
    sl_profiler_close(p);
}

static void other_conditions_start_anew(void **state) {
    (void)state;
    sl_profiler *p;
    assert_ok(sl_profiler_open(NULL, RANKS, 0, 1, &p));
    for (int i = 0; i < 6; i++)
        add(p, i, 1, 10, 1);
    profile_is(p, 5, 10, 1);
    add(p, 6, 1, 10, 41); /* a link became slow */
    profile_is(p, 1, 10, 41);
    add(p, 7, 1, 10, 42); /* it varies */
    add(p, 8, 1, 10, 42);
    profile_is(p, 3, 10, 42);
    add(p, 9, 1, 16, 42); /* a rank became slow */
    profile_is(p, 1, 16, 42);
    add(p, 10, 2, 16, 42); /* another schedule */
    profile_is(p, 1, 16, 42);
    sl_profiler_close(p);
}

/* 0 to 1: iterations saw 3 ms in all and no occupancy; the ping test says 2 ns a byte, so a message of 0.5 MB
 * occupies it for 1 ms of them. 1 to 0: an occupancy of 2 ms was seen, the ping test is not asked. */
static void occupancy_comes_from_the_iterations_or_else_from_the_ping_test(void **state) {
    (void)state;
    sl_ping_link ping[4] = {
        [1] = {.rounds = 9, .latency = 5, .per_byte = 2}, [2] = {.rounds = 9, .latency = 5, .per_byte = 9}};
    sl_profiler *p;
    sl_problem measured, profile;
    assert_ok(sl_profiler_open(ping, RANKS, 500000, 1, &p));
    make(&measured, 10, 3);
    measured.link[2].transfer = 2 * SL_MS;
    assert_ok(sl_profiler_add(p, 0, &measured, 1, 1, 0));
    assert_ok(sl_profiler_problem(p, &profile));
    assert_true(profile.link[1].latency == 2 * SL_MS && profile.link[1].transfer == SL_MS);
    assert_true(profile.link[2].latency == 3 * SL_MS && profile.link[2].transfer == 2 * SL_MS);
    assert_true(profile.link[1].bytes == 500000 && profile.link[2].bytes == 500000);
    sl_problem_free(&profile);
    sl_problem_free(&measured);
    sl_profiler_close(p);
    ping[1].per_byte = 100; /* slower then than the messages since: not more than they took */
    assert_ok(sl_profiler_open(ping, RANKS, 500000, 1, &p));
    add(p, 1, 0, 10, 3);
    assert_ok(sl_profiler_problem(p, &profile));
    assert_true(profile.link[1].latency == 0 && profile.link[1].transfer == 3 * SL_MS);
    sl_problem_free(&profile);
    sl_profiler_close(p);
}

/* F 10, B 36 where the plan had I 10 and W 20: a third and two thirds. Where I and W ran they stay. */
static void what_did_not_run_has_its_share_of_the_full_backward(void **state) {
    (void)state;
    sl_problem before, measured;
    sl_timeline timeline;
    make(&before, 10, 0);
    before.time[SL_W][0] = 20 * SL_MS;
    assert_ok(sl_problem_copy(&before, &measured));
    measured.time[SL_B][0] = 36 * SL_MS;
    measured.time[SL_I][1] = 7 * SL_MS;
    assert_ok(sl_timeline_make(RANKS, 4, 0, &timeline));
    timeline.span[0].op = (sl_op){.stage = 0, .kind = SL_F};
    timeline.span[1].op = (sl_op){.stage = 0, .kind = SL_B};
    timeline.span[2].op = (sl_op){.stage = 1, .kind = SL_I};
    timeline.span[3].op = (sl_op){.stage = 1, .kind = SL_W};
    sl_profile_divide(&timeline, &before, 0, &measured);
    assert_int_equal(measured.time[SL_I][0], 12 * SL_MS);
    assert_int_equal(measured.time[SL_W][0], 24 * SL_MS);
    assert_true(measured.time[SL_I][1] == 7 * SL_MS && measured.time[SL_W][1] == 10 * SL_MS);
    before.time[SL_B][0] = 18 * SL_MS; /* prescribed so, and it took twice that: so do its halves */
    sl_profile_divide(&timeline, &before, 1, &measured);
    assert_int_equal(measured.time[SL_I][0], 20 * SL_MS);
    assert_int_equal(measured.time[SL_W][0], 40 * SL_MS);
    sl_timeline_free(&timeline);
    sl_problem_free(&measured);
    sl_problem_free(&before);
}

/* Stage 0: F takes 2 and 10 in two parts each, so 6 on average, B 8 and 16: 12, of which I had a third. Stage
 * 1: I 4, W 7 and 9; F ran in a pair only and stays. */
static void means_add_up_to_what_a_rank_was_busy(void **state) {
    (void)state;
    static const struct {
        int stage, kind, microbatch, part, paired, ms;
    } spans[] = {{0, SL_F, 0, 0, 0, 1},  {0, SL_F, 0, 1, 0, 1},  {0, SL_F, 1, 0, 0, 3}, {0, SL_F, 1, 1, 0, 7},
                 {0, SL_B, 0, 0, 0, 3},  {0, SL_B, 0, 1, 0, 5},  {0, SL_B, 1, 0, 0, 8}, {0, SL_B, 1, 1, 0, 8},
                 {1, SL_F, 0, 0, 1, 99}, {1, SL_B, 0, 0, 0, 99}, {1, SL_I, 1, 0, 0, 4}, {1, SL_W, 1, 0, 0, 7},
                 {1, SL_W, 2, 0, 0, 9}};
    enum { SPANS = sizeof spans / sizeof spans[0] };
    sl_problem p;
    sl_timeline t;
    make(&p, 10, 0);
    p.time[SL_B][0] = 30 * SL_MS;
    assert_ok(sl_timeline_make(RANKS, SPANS, 0, &t));
    for (int i = 0; i < SPANS; i++)
        t.span[i] = (sl_span){.rank = spans[i].stage,
                              .op = {.stage = spans[i].stage,
                                     .microbatch = spans[i].microbatch,
                                     .kind = (int16_t)spans[i].kind,
                                     .part = (int16_t)spans[i].part,
                                     .paired = (int16_t)spans[i].paired},
                              .start = 1000 * i,
                              .end = 1000 * i + spans[i].ms * SL_MS};
    sl_profile_average(&t, &p);
    assert_int_equal(p.time[SL_F][0], 6 * SL_MS);
    assert_int_equal(p.time[SL_B][0], 12 * SL_MS);
    assert_int_equal(p.time[SL_I][0], 4 * SL_MS);
    assert_int_equal(p.time[SL_W][0], 8 * SL_MS);
    assert_true(p.time[SL_F][1] == 10 * SL_MS && p.time[SL_I][1] == 4 * SL_MS &&
                p.time[SL_W][1] == 8 * SL_MS && p.time[SL_B][1] == 12 * SL_MS);
    sl_timeline_free(&t);
    sl_problem_free(&p);
}

/* 1F1B on two ranks, F 10, B 20, free links, 4 microbatches: 130 ms by hand,
 *
 *   rank 0  F0 0-10  F1 10-20 . B0 40-60  F2 60-70  B1 .. and so on: rank 1 is busy from 10 to 130, then B3
 * 20 more on rank 0: 150.  Rank 0 holds 2 at once, rank 1 one; 5 lie there, and I takes 3 more. */
static void what_a_program_takes_is_foretold(void **state) {
    (void)state;
    sl_problem p;
    sl_plan plan;
    sl_time makespan;
    double peak[RANKS], fixed[RANKS] = {5, 0};
    make(&p, 10, 0);
    for (int stage = 0; stage < RANKS; stage++) {
        p.start[stage] = p.early[stage] = 3;
        p.delta[SL_F][stage] = 2;
        p.delta[SL_W][stage] = p.delta[SL_B][stage] = -5;
    }
    p.fixed = fixed;
    assert_ok(sl_plan_make(&p, "1f1b", &plan));
    assert_ok(sl_profile_predict(&p, &plan.program, &makespan, peak));
    assert_int_equal(makespan, 150 * SL_MS);
    assert_true(peak[0] == 5 + 2 * 2 + 3 && peak[1] == 2 + 3);
    assert_true(plan.peak_memory[0] == peak[0] && plan.peak_memory[1] == peak[1]);
    sl_plan_free(&plan);
    p.fixed = NULL;
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_of_the_last_iterations_without_the_first),
        cmocka_unit_test(other_conditions_start_anew),
        cmocka_unit_test(ops_without_a_pace_may_vary),
        cmocka_unit_test(occupancy_comes_from_the_iterations_or_else_from_the_ping_test),
        cmocka_unit_test(what_did_not_run_has_its_share_of_the_full_backward),
        cmocka_unit_test(means_add_up_to_what_a_rank_was_busy),
        cmocka_unit_test(what_a_program_takes_is_foretold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
