/* Planning with host memory: it is used where it pays, and only there. */
#include "check.h"

#include "base/memory.h"
#include "plan/search/plan.h"

/* The published example (Adaptra, section 4): S = 4, N = 12, F = I = W = 10 ms; 1F1B's memory of 4 a rank. */
static void make(sl_problem *p, double limit, int32_t host, double offload_ms, double delay_ms) {
    assert_ok(sl_problem_make(4, 4, 12, p));
    for (int s = 0; s < 4; s++) {
        p->time[SL_F][s] = p->time[SL_I][s] = p->time[SL_W][s] = 10 * SL_MS;
        p->time[SL_B][s] = 20 * SL_MS;
        p->offload[s] = sl_from_ms(offload_ms);
    }
    p->link[0 * 4 + 1].latency = p->link[1 * 4 + 0].latency = sl_from_ms(delay_ms);
    if (limit > 0)
        assert_ok(sl_alloc(&p->limit, 4, sizeof *p->limit));
    if (host > 0)
        assert_ok(sl_alloc(&p->host_limit, 4, sizeof *p->host_limit));
    for (int rank = 0; rank < 4; rank++) {
        if (p->limit)
            p->limit[rank] = limit;
        if (p->host_limit)
            p->host_limit[rank] = host;
    }
}

static int moves_of(const sl_plan *plan) {
    int moves = 0;
    for (int rank = 0; rank < plan->program.ranks; rank++)
        moves += plan->program.rank[rank].moves;
    return moves;
}

static sl_time makespan_with(const char *schedule, double limit, int32_t host, double offload_ms,
                             double delay_ms, int *moves) {
    sl_problem p;
    sl_plan plan;
    make(&p, limit, host, offload_ms, delay_ms);
    assert_ok(sl_plan_make(&p, schedule, &plan));
    assert_true(plan.memory_ok);
    for (int rank = 0; rank < 4 && p.limit; rank++) {
        assert_true(plan.peak_memory[rank] <= p.limit[rank]);
        assert_true(plan.peak_host[rank] <= (p.host_limit ? p.host_limit[rank] : 0));
    }
    assert_true(plan.bound <= plan.makespan);
    sl_time makespan = plan.makespan;
    *moves = moves_of(&plan);
    sl_plan_free(&plan);
    sl_problem_free(&p);
    return makespan;
}

/* Without a limit adaptra takes 390 ms, and 390 + c with a delay of c on link 0-1, the lower bound, for c up
 * to 80 ms (c >= 20: 400 and 410 at 10 and 20, for 390 holds 10 ms of slack back). With 4 activations a rank
 * and moves of 1 ms host memory makes up for what is missing; the delays without it cost several times as
 * much. */
static void a_delay_is_absorbed_as_if_memory_were_unlimited(void **state) {
    (void)state;
    static const double delays[] = {0, 10, 20, 30, 40, 60, 80};
    for (size_t i = 0; i < sizeof delays / sizeof delays[0]; i++) {
        int moves, none;
        sl_time unlimited = makespan_with("adaptra", 0, 0, 0, delays[i], &none),
                tight = makespan_with("adaptra", 4, 0, 0, delays[i], &none),
                hosted = makespan_with("adaptra", 4, 12, 1, delays[i], &moves);
        if (hosted != unlimited)
            fail_msg("delay %g: %g ms with host memory, %g without a limit", delays[i], sl_to_ms(hosted),
                     sl_to_ms(unlimited));
        assert_true(hosted < tight);
        assert_true(moves > 0);
    }
    int moves;
    assert_int_equal(makespan_with("adaptra", 4, 12, 1, 0, &moves), 390 * SL_MS);
    assert_int_equal(makespan_with("adaptra", 4, 12, 1, 40, &moves), 430 * SL_MS);
}

/* Moves of 200 ms, 20 times an op: two of them alone are longer than what they could win. */
static void moves_that_cost_more_than_they_bring_are_not_made(void **state) {
    (void)state;
    int moves;
    sl_time tight = makespan_with("adaptra", 4, 0, 0, 0, &moves);
    assert_int_equal(makespan_with("adaptra", 4, 12, 200, 0, &moves), tight);
    assert_int_equal(moves, 0);
}

/* Whatever a move costs, host memory never makes a plan longer. */
static void host_memory_never_makes_a_plan_longer(void **state) {
    (void)state;
    for (int offload = 0; offload <= 60; offload += 5)
        for (int delay = 0; delay <= 40; delay += 20) {
            int moves;
            sl_time tight = makespan_with("adaptra", 4, 0, 0, delay, &moves);
            assert_true(makespan_with("adaptra", 4, 6, offload, delay, &moves) <= tight);
        }
}

/* 1F1B holds 4 on rank 0: with 3 on the device it needs the host, and is refused without. */
static void a_static_schedule_that_does_not_fit_is_offloaded(void **state) {
    (void)state;
    sl_problem p;
    sl_plan plan;
    int moves;
    make(&p, 3, 0, 0, 0);
    assert_fails(sl_plan_make(&p, "1f1b", &plan), SL_ENONE, "over its limit of 3");
    sl_plan_free(&plan);
    sl_problem_free(&p);
    makespan_with("1f1b", 3, 3, 1, 0, &moves);
    assert_true(moves > 0);
}

/* The search's plan is at least as short as the best family's, and its moves are part of what it measures. */
static void the_search_uses_host_memory(void **state) {
    (void)state;
    sl_problem p;
    sl_plan plan;
    int moves;
    sl_time family = makespan_with("adaptra", 4, 12, 15, 30, &moves);
    make(&p, 4, 12, 15, 30);
    sl_plan_options options = {.schedule = "auto", .time_limit = 0.3, .seed = 1, .threads = 1, .exact = 1};
    assert_ok(sl_plan_search(&p, &options, &plan));
    assert_true(plan.makespan <= family);
    assert_true(plan.memory_ok);
    assert_true(plan.bound <= plan.makespan);
    for (int rank = 0; rank < 4; rank++)
        assert_true(plan.peak_memory[rank] <= 4 && plan.peak_host[rank] <= 12);
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_delay_is_absorbed_as_if_memory_were_unlimited),
        cmocka_unit_test(moves_that_cost_more_than_they_bring_are_not_made),
        cmocka_unit_test(host_memory_never_makes_a_plan_longer),
        cmocka_unit_test(a_static_schedule_that_does_not_fit_is_offloaded),
        cmocka_unit_test(the_search_uses_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
