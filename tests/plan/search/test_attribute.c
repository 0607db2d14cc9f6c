/* Attribution: by hand where the critical path is plain, with Adaptra's figures, and sums on random problems.
 */
#include "check.h"
#include "plan/drawn.h"

#include "plan/family/family.h"
#include "plan/search/attribute.h"

static void make(sl_problem *p, int ranks, int microbatches) {
    assert_ok(sl_problem_make(ranks, ranks, microbatches, p));
    for (int rank = 0; rank < ranks; rank++) {
        p->time[SL_F][rank] = p->time[SL_I][rank] = p->time[SL_W][rank] = 10 * SL_MS;
        p->time[SL_B][rank] = 20 * SL_MS;
    }
}

static void delay(sl_problem *p, int from, double ms) {
    p->link[from * p->ranks + from + 1].latency = p->link[(from + 1) * p->ranks + from].latency =
        sl_from_ms(ms);
}

static double link_cost(const sl_attribution *a, int from, int to) {
    for (int i = 0; i < a->links; i++)
        if (a->link[i].from == from && a->link[i].to == to)
            return a->link[i].cost;
    fail_msg("no link %d-%d", from, to);
    return 0;
}

static double op_cost(const sl_attribution *a, int stage, int kind) {
    for (int i = 0; i < a->ops; i++)
        if (a->op[i].stage == stage && a->op[i].kind == kind)
            return a->op[i].cost;
    fail_msg("no %d%s", stage, sl_op_name(kind));
    return 0;
}

/* One microbatch: F0, F1, I1, I0, W0 and two messages in a row; W1 next to I0. Each rank works 30 of 50 ms
 * (plus the delays). */
static void in_a_chain_everything_costs_what_it_takes(void **state) {
    (void)state;
    sl_problem p;
    sl_plan plan;
    sl_attribution a;
    make(&p, 2, 1);
    delay(&p, 0, 4);
    p.time[SL_W][1] = 6 * SL_MS;
    p.reduce[0] = 3 * SL_MS;
    assert_ok(sl_plan_make(&p, "zb-h1", &plan));
    assert_ok(sl_attribute(&p, &plan, &a));
    assert_int_equal(plan.makespan, 61 * SL_MS);
    assert_int_equal(a.work, 28 * SL_MS);
    assert_int_equal(a.imbalance, 2 * SL_MS);
    assert_int_equal(a.fill, 20 * SL_MS);
    assert_int_equal(a.collectives, 3 * SL_MS);
    assert_int_equal(a.dependency, 8 * SL_MS);
    assert_int_equal(a.blocking, 0);
    assert_int_equal(a.links, 2);
    assert_true(link_cost(&a, 0, 1) == 1 && link_cost(&a, 1, 0) == 1);
    assert_int_equal(a.ops, 6);
    for (int kind = SL_F; kind <= SL_W; kind++) {
        assert_true(op_cost(&a, 0, kind) == 1);
        assert_true(op_cost(&a, 1, kind) == (kind == SL_W ? 0 : 1));
    }
    sl_attribution_free(&a);
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

/* 1F1B on two ranks with a one-way delay c, N = 2K microbatches: two are under way at a time, so rank 1 runs
 * F, B of microbatch 2k + 2 a round trip after those of 2k: 60 + 2c. Rank 0 ends at 30 + 60 K + 2 c K: a ms
 * on either link costs K, on both 2N / (slack + 1) with a slack of 1. */
static void a_slow_link_costs_1f1b_every_round_trip(void **state) {
    (void)state;
    for (int n = 2; n <= 16; n += 2)
        for (int c = 0; c <= 20; c += 5) {
            sl_problem p;
            sl_plan plan;
            sl_attribution a;
            make(&p, 2, n);
            delay(&p, 0, c);
            assert_ok(sl_plan_make(&p, "1f1b", &plan));
            assert_ok(sl_attribute(&p, &plan, &a));
            assert_int_equal(plan.makespan, (30 + 30 * n + n * c) * SL_MS);
            assert_true(link_cost(&a, 0, 1) == n / 2 && link_cost(&a, 1, 0) == n / 2);
            assert_int_equal(a.work, 30 * n * SL_MS);
            assert_int_equal(a.fill, 30 * SL_MS);
            assert_int_equal(a.dependency, n * c * SL_MS);
            sl_attribution_free(&a);
            sl_plan_free(&plan);
            sl_problem_free(&p);
        }
}

/* Adaptra, figure 5: with the ideal schedule, a delay between ranks 0 and 1 that grows from 0 to 10 ms costs
 * 10 ms, from 10 to 20 ms 40 ms more. Here it grows by 1 ms, one direction after the other. */
static void costs_of_a_growing_delay_add_up_to_the_published_growth(void **state) {
    (void)state;
    sl_problem p;
    sl_order ideal;
    double grown[2] = {0, 0};
    make(&p, 4, 12);
    assert_ok(sl_family_build(sl_family_find("adaptra"), &p, &ideal));
    for (int step = 0; step < 40; step++) {
        int from = step % 2, to = 1 - from;
        sl_plan running;
        sl_attribution a;
        assert_ok(sl_plan_of_order(&p, &ideal, "file", &running));
        assert_ok(sl_attribute(&p, &running, &a));
        grown[step / 20] += link_cost(&a, from, to);
        p.link[from * p.ranks + to].latency += SL_MS;
        sl_attribution_free(&a);
        sl_plan_free(&running);
    }
    assert_true(grown[0] == 10);
    assert_true(grown[1] == 40);
    sl_order_free(&ideal);
    sl_problem_free(&p);
}

/* Its adapted schedules take 390 + c (the lower bound): a ms of delay costs a ms. */
static void in_an_adapted_plan_a_slow_link_costs_its_delay(void **state) {
    (void)state;
    sl_problem p;
    make(&p, 4, 12);
    for (int c = 5; c <= 60; c += 5) {
        sl_plan adapted;
        sl_attribution a;
        delay(&p, 0, c);
        assert_ok(sl_plan_make(&p, "adaptra", &adapted));
        assert_ok(sl_attribute(&p, &adapted, &a));
        assert_int_equal(adapted.makespan, (390 + c) * SL_MS);
        assert_int_equal(a.dependency + a.fill, (30 + c) * SL_MS);
        assert_true(link_cost(&a, 0, 1) + link_cost(&a, 1, 0) == 1);
        sl_attribution_free(&a);
        sl_plan_free(&adapted);
    }
    sl_problem_free(&p);
}

static void draw_problem(sl_problem *p) {
    static const struct {
        sl_placement placement;
        int chunks;
    } shapes[] = {{SL_LINEAR, 1}, {SL_LOOP, 2}, {SL_WAVE, 2}, {SL_BIDIRECTIONAL, 2}};
    int shape = draw(4), ranks = 2 + draw(4), even = shape == 3 ? ranks - ranks % 2 : ranks;
    int stages = even * shapes[shape].chunks;
    assert_ok(sl_problem_make(even, stages, even * (1 + draw(3)), p));
    p->placement = shapes[shape].placement;
    p->communication = (sl_regime)draw(3);
    p->queue = 1 + draw(2);
    for (int stage = 0; stage < stages; stage++) {
        for (int kind = 0; kind < SL_B; kind++)
            p->time[kind][stage] = 1 + draw(20) * SL_MS + draw(1000);
        p->time[SL_B][stage] = p->time[SL_I][stage] + p->time[SL_W][stage];
        if (draw(3) == 0)
            p->reduce[stage] = draw(9) * SL_MS;
        if (draw(3) == 0)
            p->gather[stage] = draw(9) * SL_MS;
    }
    for (int i = 0; i < even * even; i++)
        p->link[i] = (sl_link){.latency = draw(2) * draw(40) * SL_MS, .transfer = draw(2) * draw(10) * SL_MS};
}

static void check_sums(const sl_problem *p, const char *schedule) {
    sl_plan plan;
    sl_attribution a;
    sl_time work = 0, most = 0;
    assert_ok(sl_plan_make(p, schedule, &plan));
    assert_ok(sl_attribute(p, &plan, &a));
    assert_int_equal(a.work + a.imbalance + a.fill + a.collectives + a.dependency + a.blocking,
                     plan.makespan);
    for (int rank = 0; rank < p->ranks; rank++) {
        sl_time sum = 0; /* no pairs here: all ops one after the other */
        for (int i = 0; i < plan.order.count[rank]; i++)
            sum += sl_problem_op_time(p, &plan.order.ops[rank][i]);
        work += sum;
        most = sum > most ? sum : most;
    }
    assert_int_equal(a.work, work / p->ranks);
    assert_int_equal(a.work + a.imbalance, most);
    assert_true(a.fill >= 0);
    if (p->communication == SL_DECOUPLED)
        assert_int_equal(a.blocking, 0);
    for (int i = 0; i < a.ops && p->communication == SL_DECOUPLED; i++)
        assert_true(a.op[i].cost >= 0); /* first come, first served on links of their own: later is later */
    sl_attribution_free(&a);
    sl_plan_free(&plan);
}

static void the_parts_add_up_to_the_makespan(void **state) {
    (void)state;
    start_drawing(405u);
    int checked = 0;
    for (int round = 0; round < 150; round++) {
        sl_problem p;
        draw_problem(&p);
        for (const sl_family *family = sl_families; family->name; family++) {
            sl_plan plan;
            if (!(family->placements & 1u << p.placement))
                continue;
            sl_status status = sl_plan_make(&p, family->name, &plan);
            int paired = 0;
            for (int rank = 0; status == SL_OK && rank < p.ranks; rank++)
                for (int i = 0; i < plan.order.count[rank]; i++)
                    paired |= plan.order.ops[rank][i].paired;
            sl_plan_free(&plan);
            if (status != SL_OK || paired)
                continue;
            check_sums(&p, family->name);
            checked++;
        }
        sl_problem_free(&p);
    }
    assert_true(checked > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_chain_everything_costs_what_it_takes),
        cmocka_unit_test(a_slow_link_costs_1f1b_every_round_trip),
        cmocka_unit_test(costs_of_a_growing_delay_add_up_to_the_published_growth),
        cmocka_unit_test(in_an_adapted_plan_a_slow_link_costs_its_delay),
        cmocka_unit_test(the_parts_add_up_to_the_makespan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
