/* Schedule families: published bubbles, warm-up, memory; whatever the problem, a schedule is valid, within
 * the limit and not below the bound. */
#include "check.h"
#include "plan/drawn.h"

#include "plan/bound/bound.h"
#include "plan/family/family.h"
#include "plan/family/slack.h"
#include "plan/search/plan.h"
#include "plan/timing/replay.h"

#ifndef PROBLEMS
#define PROBLEMS 500
#endif

static void make(sl_problem *p, int ranks, int microbatches, sl_time f, sl_time i, sl_time w) {
    assert_ok(sl_problem_make(ranks, ranks, microbatches, p));
    for (int s = 0; s < ranks; s++) {
        p->time[SL_F][s] = f;
        p->time[SL_I][s] = i;
        p->time[SL_W][s] = w;
        p->time[SL_B][s] = i + w;
    }
}

/* Zero Bubble, table 1: 1F1B (p-1)(F+I+W), ZB-H1 (p-1)(F+I-W), ZB-H2 (p-1)(F+I-2W); here F = I = W = 10. */
static void bubbles_are_those_of_the_zero_bubble_paper(void **state) {
    (void)state;
    for (int p = 2; p <= 16; p += p < 8 ? 1 : 4)
        for (int n = 2 * p; n <= 4 * p; n += p) {
            static const char *const names[] = {"1f1b", "zb-h1", "zb-h2"};
            for (int k = 0; k < 3; k++) {
                sl_problem problem;
                sl_plan plan;
                make(&problem, p, n, 10, 10, 10);
                assert_ok(sl_plan_make(&problem, names[k], &plan));
                assert_int_equal(plan.span - n * 30, (p - 1) * (k == 0 ? 30 : k == 1 ? 10 : 0));
                double most = 0;
                for (int s = 0; s < p; s++) {
                    assert_int_equal(plan.warmup[s], k == 2 ? 2 * (p - s) - 1 : p - s);
                    most = plan.peak_memory[s] > most ? plan.peak_memory[s] : most;
                }
                assert_true(most == (k == 2 ? 2 * p - 1 : p));
                sl_plan_free(&plan);
                sl_problem_free(&problem);
            }
        }
}

/* Slack 2, 2, 1 for x0 = 6; 5 = 2+2+1 spread from the front. */
static void balanced_warm_up_is_algorithm_1(void **state) {
    (void)state;
    int x[4];
    static const struct {
        int x0, x[4];
    } cases[] = {{6, {6, 4, 2, 1}}, {7, {7, 5, 3, 1}}, {4, {4, 3, 2, 1}},
                 {3, {3, 2, 1, 1}}, {1, {1, 1, 1, 1}}, {12, {12, 8, 4, 1}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_warmup_balanced(4, cases[i].x0, x);
        assert_memory_equal(x, cases[i].x, sizeof x);
    }
    sl_warmup_balanced(1, 5, x);
    assert_int_equal(x[0], 5);
}

/* By hand: needed slack ceil((20 + 2c) / 20), at least 2, at most max(N - 2S, 2); x at most N. */
static void adapted_warm_up_is_algorithm_2_with_its_clip(void **state) {
    (void)state;
    static const struct {
        int n, delay, x[4];
    } cases[] = {{12, 0, {7, 5, 3, 1}},  {12, 10, {7, 5, 3, 1}},   {12, 20, {8, 5, 3, 1}},
                 {12, 60, {9, 5, 3, 1}}, {100, 60, {12, 5, 3, 1}}, {8, 60, {7, 5, 3, 1}},
                 {4, 60, {4, 4, 3, 1}},  {2, 0, {2, 2, 2, 1}},     {1, 0, {1, 1, 1, 1}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_problem p;
        int x[4];
        make(&p, 4, cases[i].n, 10, 10, 10);
        p.link[0 * 4 + 1].latency = cases[i].delay;
        sl_warmup_adapted(&p, x);
        assert_memory_equal(x, cases[i].x, sizeof x);
        sl_problem_free(&p);
    }
}

static void tolerance_is_equation_1(void **state) {
    (void)state;
    sl_problem p;
    make(&p, 3, 8, 10, 10, 10);
    p.time[SL_F][2] = 7;
    p.time[SL_I][2] = 8;
    p.time[SL_B][2] = 13;
    static const int x[3] = {6, 4, 1};
    assert_int_equal(sl_slack_tolerance(&p, x, 0, 0), 10); /* 20 + 2c <= 2 * 20 */
    assert_int_equal(sl_slack_tolerance(&p, x, 1, 0), 12); /* 20 + 2c <= 3 * 15 */
    assert_int_equal(sl_slack_tolerance(&p, x, 1, 1), 15); /* 30 + 2c <= 3 * 20 */
    static const int none[3] = {3, 3, 3};
    assert_int_equal(sl_slack_tolerance(&p, none, 0, 0), 0);
    sl_problem_free(&p);
}

static void randomise(sl_problem *p) {
    int ranks = 1 + draw(8);
    make(p, ranks, 1 + draw(24), 0, 0, 0);
    for (int s = 0; s < ranks; s++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            p->time[kind][s] = 1 + draw(30);
        p->delta[SL_F][s] = 1 + draw(8) * 0.3;
        p->delta[SL_I][s] = -p->delta[SL_F][s] * draw(3) * 0.25;
        p->delta[SL_W][s] = -p->delta[SL_F][s] - p->delta[SL_I][s];
        p->delta[SL_B][s] = -p->delta[SL_F][s];
    }
    for (int i = 0; i < ranks * ranks; i++)
        p->link[i] = (sl_link){.latency = draw(4) ? 0 : draw(90), .transfer = draw(4) ? 0 : draw(30)};
    p->communication = draw(2) ? SL_INORDER : SL_DECOUPLED;
    p->queue = 1 + draw(3);
    if (draw(2)) {
        p->limit = calloc((size_t)ranks, sizeof *p->limit);
        for (int r = 0; r < ranks; r++)
            p->limit[r] = p->delta[SL_F][r] * (0.9 + draw(60) * 0.1);
    }
}

static void check_plan(const sl_problem *p, const sl_plan *plan) {
    sl_program again;
    assert_ok(sl_lower(p, &plan->order, &again)); /* valid, no deadlock */
    sl_program_free(&again);
    assert_ok(sl_order_check_ascending(&plan->order));
    assert_true(plan->makespan >= plan->bound);
    assert_true(plan->memory_ok);
    for (int r = 0; p->limit && r < p->ranks; r++)
        assert_true(plan->peak_memory[r] <= p->limit[r] * (1 + 1e-9));
}

static void random_problems_get_valid_schedules_within_the_limit_and_above_the_bound(void **state) {
    (void)state;
    start_drawing(20261121u);
    int answered = 0, none = 0;
    for (int round = 0; round < PROBLEMS; round++) {
        sl_problem p;
        sl_time best = SL_TIME_NEVER;
        int fits = 1;
        randomise(&p);
        for (int r = 0; p.limit && r < p.ranks; r++)
            fits &= p.limit[r] >= p.delta[SL_F][r];
        for (const sl_family *f = sl_families; f->name; f++) {
            sl_plan plan;
            if (!sl_family_fits(f, &p))
                continue;
            sl_status status = sl_plan_make(&p, f->name, &plan);
            if (status == SL_OK) {
                check_plan(&p, &plan);
                best = plan.makespan < best ? plan.makespan : best;
                answered++;
            } else {
                assert_int_equal(status, SL_ENONE);
                none++;
                /* one microbatch at a time always works where each rank can hold one: adaptra finds a
                 * schedule then */
                assert_false(fits && strcmp(f->name, "adaptra") == 0);
            }
            sl_plan_free(&plan);
        }
        sl_plan chosen;
        sl_status status = sl_plan_make(&p, "auto", &chosen);
        assert_int_equal(status, best == SL_TIME_NEVER ? SL_ENONE : SL_OK);
        if (status == SL_OK)
            assert_int_equal(chosen.makespan, best);
        sl_plan_free(&chosen);
        sl_problem_free(&p);
    }
    assert_true(answered > PROBLEMS * 4 / 3 &&
                none > PROBLEMS / 15); /* both sides of the promise were tried */
}

/* The ops of one rank and 2 microbatches in the order that `code` of 720 stands for; 0: one comes before what
 * it needs. */
static int permuted(int code, int rank, sl_op *ops) {
    int left[6] = {0, 1, 2, 3, 4, 5}, seen[6] = {0};
    for (int n = 6; n > 0; n--) {
        const int pick = code % n, value = left[pick];
        code /= n;
        for (int k = pick; k + 1 < n; k++)
            left[k] = left[k + 1];
        if (value >= 2 && !seen[value - 2])
            return 0;
        seen[value] = 1;
        ops[6 - n] = (sl_op){.stage = rank, .kind = value / 2, .microbatch = value % 2};
    }
    return 1;
}

/* All orders of 2 ranks and 2 microbatches, in any interleaving: none is below the bound. */
static void no_order_beats_the_bound(void **state) {
    (void)state;
    sl_op ops[2][720][6];
    int count = 0;
    for (int code = 0; code < 720; code++)
        count += permuted(code, 0, ops[0][count]) && permuted(code, 1, ops[1][count]);
    assert_int_equal(count, 20); /* 6! / (3! 3!): each microbatch's F, I, W in this order */
    random_state = 5;
    for (int round = 0; round < 40; round++) {
        sl_problem p;
        sl_time bound, best = SL_TIME_NEVER;
        make(&p, 2, 2, 1 + draw(9), 1 + draw(9), 1 + draw(9));
        for (int i = 0; i < 4; i++)
            p.link[i] = (sl_link){.latency = draw(12), .transfer = draw(12)};
        assert_ok(sl_lower_bound(&p, 1, &bound));
        for (int code = 0; code < count * count; code++) {
            sl_op *both[2] = {ops[0][code % count], ops[1][code / count]};
            sl_order order = {.ranks = 2, .count = (int[]){6, 6}, .ops = both};
            sl_program program;
            sl_timeline t;
            if (sl_lower(&p, &order, &program) != SL_OK)
                continue;
            assert_ok(sl_replay(&p, &program, SL_DECOUPLED, 1, &t));
            sl_time makespan = sl_timeline_makespan(&t);
            best = makespan < best ? makespan : best;
            sl_timeline_free(&t);
            sl_program_free(&program);
        }
        assert_true(best < SL_TIME_NEVER);
        assert_true(bound <= best);
        sl_problem_free(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bubbles_are_those_of_the_zero_bubble_paper),
        cmocka_unit_test(balanced_warm_up_is_algorithm_1),
        cmocka_unit_test(adapted_warm_up_is_algorithm_2_with_its_clip),
        cmocka_unit_test(tolerance_is_equation_1),
        cmocka_unit_test(random_problems_get_valid_schedules_within_the_limit_and_above_the_bound),
        cmocka_unit_test(no_order_beats_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
