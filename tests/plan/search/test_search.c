/* The search, on random problems with everything that a problem may have: its plans are valid, within memory,
 * never worse than a family and never below the bound; the same seed finds the same. SL_SEED gives other
 * problems, SL_ROUNDS more of them. */
#include "check.h"
#include "plan/search/drawn_problem.h"

#include "base/clock.h"
#include "base/memory.h"
#include "plan/bound/bound.h"
#include "plan/family/family.h"
#include "plan/pipeline/layers.h"
#include "plan/search/improve.h"
#include "plan/search/layer_cut.h"
#include "plan/search/plan.h"
#include "plan/timing/replay.h"

static void no_family_beats_the_search(void **state) {
    (void)state;
    const char *more = getenv("SL_ROUNDS");
    int rounds = more ? atoi(more) : 150, answered = 0, refused = 0;
    for (int round = 0; round < rounds; round++) {
        sl_problem p;
        sl_plan plan, other;
        random_problem(&p);
        sl_plan_options options = {.schedule = draw(2) ? "auto" : "optimal",
                                   .time_limit = 0.01,
                                   .seed = (uint64_t)round,
                                   .threads = 1 + draw(2)};
        sl_status status = sl_plan_search(&p, &options, &plan);
        assert_true(status == SL_OK || status == SL_ENONE);
        if (status == SL_OK) {
            check_plan(&p, &plan);
            answered++;
        }
        refused += status == SL_ENONE;
        for (const sl_family *family = sl_families; family->name; family++) {
            if (sl_plan_make(&p, family->name, &other) == SL_OK) {
                assert_int_equal(status, SL_OK); /* what a family can, the search can */
                check_plan(&p, &other);
                if (plan.makespan > other.makespan || plan.bound > other.makespan) {
                    sl_problem_write(&p, stdout);
                    fail_msg("%s takes %lld, the search %lld, bound %lld", family->name,
                             (long long)other.makespan, (long long)plan.makespan, (long long)plan.bound);
                }
            }
            sl_plan_free(&other);
        }
        sl_plan_free(&plan);
        sl_problem_free(&p);
    }
    printf("%d plans, %d without an answer\n", answered, refused);
    assert_true(answered > rounds / 2 && refused > 0);
}

static void the_same_seed_finds_the_same_order(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(sl_problem_make(6, 6, 12, &p));
    for (int s = 0; s < 6; s++)
        for (int kind = SL_F; kind <= SL_W; kind++)
            p.time[kind][s] = (5 + (s * 7 + kind * 3) % 11) * SL_MS;
    p.link[2 * 6 + 3] = p.link[3 * 6 + 2] = (sl_link){.latency = 17 * SL_MS, .transfer = 4 * SL_MS};
    sl_order order[3];
    sl_improve_result result[3];
    sl_plan plan;
    for (int i = 0; i < 3; i++) {
        assert_ok(sl_plan_make(&p, "zb-h1", &plan));
        assert_ok(sl_order_copy(&plan.order, &order[i]));
        sl_improve_options options = {.until = {.deadline = SL_TIME_NEVER},
                                      .work = 700000,
                                      .heat = 1,
                                      .seed = i < 2 ? 1 : 2,
                                      .target = 0};
        assert_ok(sl_improve(&p, &options, &order[i], &result[i]));
        assert_true(result[i].value < plan.makespan);
        sl_plan_free(&plan);
    }
    assert_int_equal(result[0].value, result[1].value);
    assert_true(sl_order_equal(&order[0], &order[1]));
    for (int i = 0; i < 3; i++)
        sl_order_free(&order[i]);
    sl_problem_free(&p);
}

/* B takes 6, I and W together 8: full backwards are used where the gradient need not go early. Last rank
 * alone: 4 microbatches of F 2 and B 6 take 32. */
static void a_shorter_full_backward_is_used(void **state) {
    (void)state;
    sl_problem p;
    sl_plan plan;
    assert_ok(sl_problem_make(1, 1, 4, &p));
    p.time[SL_F][0] = 2;
    p.time[SL_I][0] = p.time[SL_W][0] = 4;
    p.time[SL_B][0] = 6;
    sl_plan_options options = {.schedule = "optimal", .time_limit = 1, .seed = 1};
    assert_ok(sl_plan_search(&p, &options, &plan));
    assert_int_equal(plan.makespan, 32);
    assert_int_equal(plan.bound, 32);
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

/* Two ranks, one half as fast, six equal layers: 4 and 2 keep both busy for 12 a microbatch. */
static void layers_are_cut_for_uneven_ranks(void **state) {
    (void)state;
    sl_problem p;
    sl_plan plan;
    assert_ok(sl_problem_make(2, 2, 20, &p));
    assert_ok(sl_layers_make(6, 2, 2, &p.layers));
    for (int layer = 0; layer < 6; layer++)
        for (int kind = SL_F; kind <= SL_B; kind++)
            p.layers->time[kind][layer] = kind == SL_B ? 2 : 1;
    p.layers->speed[1] = 0.5;
    p.layers->first[1] = 3;
    p.layers->first[2] = 6;
    assert_ok(sl_cut_choose(&p, (sl_limit){.deadline = SL_TIME_NEVER}));
    assert_int_equal(p.layers->first[1], 4);
    assert_int_equal(p.time[SL_F][0], 4);
    assert_int_equal(p.time[SL_F][1], 4);
    sl_plan_options options = {.schedule = "auto", .time_limit = 0.2, .seed = 1};
    assert_ok(sl_plan_search(&p, &options, &plan));
    assert_true(plan.makespan >= plan.bound && plan.bound >= 240);
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

/* Rank 0 has room for the weights of two layers only. */
static void layers_are_cut_for_uneven_memory(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(sl_problem_make(2, 2, 4, &p));
    assert_ok(sl_layers_make(6, 2, 2, &p.layers));
    assert_ok(sl_alloc(&p.limit, 2, sizeof(double)));
    assert_ok(sl_alloc(&p.layers->memory, 2, sizeof(double)));
    p.layers->memory[0] = 24;
    p.layers->memory[1] = 100;
    for (int layer = 0; layer < 6; layer++) {
        for (int kind = SL_F; kind <= SL_B; kind++)
            p.layers->time[kind][layer] = kind == SL_B ? 2 : 1;
        p.layers->weights[layer] = 10;
        p.layers->delta[SL_F][layer] = 1;
        p.layers->delta[SL_W][layer] = p.layers->delta[SL_B][layer] = -1;
    }
    p.layers->first[1] = 3;
    p.layers->first[2] = 6;
    assert_ok(sl_cut_choose(&p, (sl_limit){.deadline = SL_TIME_NEVER}));
    assert_int_equal(p.layers->first[1], 2);
    assert_near(p.limit[0], 4, 0);
    p.layers->memory[0] = 10.5; /* not even one layer and its activations */
    assert_fails(sl_cut_choose(&p, (sl_limit){.deadline = SL_TIME_NEVER}), SL_ENONE, "no cut of the layers");
    sl_problem_free(&p);
}

int main(void) {
    start_drawing(11);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_family_beats_the_search),
        cmocka_unit_test(the_same_seed_finds_the_same_order),
        cmocka_unit_test(a_shorter_full_backward_is_used),
        cmocka_unit_test(layers_are_cut_for_uneven_ranks),
        cmocka_unit_test(layers_are_cut_for_uneven_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
