/* The local search by itself: what it returns is an order within the memory limit that takes as long as it
 * says, and never longer than the one it began with. SL_SEED gives other problems. */
#include "check.h"
#include "plan/drawn.h"

#include "base/clock.h"
#include "plan/lower/offload.h"
#include "plan/search/improve.h"
#include "plan/search/plan.h"
#include "plan/timing/objective.h"

/* The largest memory of a rank's sequence, added up op by op. */
static double peak_of(const sl_problem *p, const sl_order *order, int rank) {
    double held = 0, peak = 0;
    for (int i = 0; i < order->count[rank]; i++) {
        const sl_op *op = &order->ops[rank][i];
        double start = op->kind == SL_F   ? p->delta[SL_F][op->stage]
                       : op->kind == SL_W ? 0
                                          : p->early[op->stage];
        held += start;
        peak = held > peak ? held : peak;
        held += op->kind == SL_F ? 0 : p->delta[op->kind][op->stage];
        peak = held > peak ? held : peak;
    }
    return peak;
}

/* Four ranks, a slow link, and room for as many microbatches as 1F1B holds: a swap of F and I is what first
 * exceeds it. */
static void tight_problem(sl_problem *p) {
    assert_ok(sl_problem_make(4, 4, 8, p));
    p->limit = calloc(4, sizeof *p->limit);
    for (int s = 0; s < 4; s++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            p->time[kind][s] = (5 + draw(10)) * SL_MS;
        p->time[SL_B][s] = p->time[SL_I][s] + p->time[SL_W][s];
        p->delta[SL_I][s] = -0.5;
        p->delta[SL_W][s] = -0.5;
        p->delta[SL_B][s] = -1;
        p->limit[s] = 4 - s;
    }
    p->link[1 * 4 + 2].latency = p->link[2 * 4 + 1].latency = draw(60) * SL_MS;
}

static void no_swap_exceeds_the_memory_limit(void **state) {
    (void)state;
    for (int round = 0; round < 8; round++) {
        sl_problem p;
        sl_plan plan;
        sl_improve_result result;
        tight_problem(&p);
        assert_ok(sl_plan_make(&p, "1f1b", &plan));
        sl_improve_options options = {
            .until = {.deadline = SL_TIME_NEVER}, .work = 60000, .seed = (uint64_t)round, .heat = 1};
        sl_time value;
        assert_ok(sl_improve(&p, &options, &plan.order, &result));
        for (int rank = 0; rank < 4; rank++)
            assert_true(peak_of(&p, &plan.order, rank) <= p.limit[rank] + 1e-6);
        assert_ok(sl_order_check(&p, &plan.order));
        assert_ok(sl_objective_of_order(&p, &plan.order, &value));
        assert_true(result.value == value && value <= plan.makespan);
        sl_plan_free(&plan);
        sl_problem_free(&p);
    }
}

/* Moves to host memory follow from a rank's order, so they are derived again for an order that is taken back.
 */
static void an_order_with_moves_to_host_memory_takes_as_long_as_the_search_says(void **state) {
    (void)state;
    for (int round = 0; round < 8; round++) {
        sl_problem p;
        sl_plan plan;
        sl_improve_result result;
        sl_time value;
        tight_problem(&p);
        p.host_limit = calloc(4, sizeof *p.host_limit);
        for (int s = 0; s < 4; s++) {
            p.limit[s] = 2;
            p.host_limit[s] = 4;
            p.offload[s] = (1 + draw(6)) * SL_MS;
        }
        assert_ok(sl_plan_make(&p, "1f1b", &plan));
        sl_improve_options options = {
            .until = {.deadline = SL_TIME_NEVER}, .work = 60000, .seed = (uint64_t)round, .heat = 1};
        assert_ok(sl_improve(&p, &options, &plan.order, &result));
        assert_ok(sl_objective_of_order(&p, &plan.order, &value));
        assert_int_equal(result.value, value);
        sl_plan_free(&plan);
        sl_problem_free(&p);
    }
}

int main(void) {
    start_drawing(3);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_swap_exceeds_the_memory_limit),
        cmocka_unit_test(an_order_with_moves_to_host_memory_takes_as_long_as_the_search_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
