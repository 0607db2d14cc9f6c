/* Splits of microbatches among replicas of several speeds. */
#include "choose/search/small_cluster.h"

#include <math.h>

/* Devices of speed 1 and 1/2, one replica each: a microbatch takes 4 * 3 ms or twice as long. Six of them:
 * 4 and 2 take 48 ms, 3 and 3 72 ms. */
static void a_replica_half_as_fast_gets_half_as_much(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_choices found;
    sl_shape_fixed fixed = sl_shape_free();
    fixed.data = 2;
    fixed.size = 1;
    make_model(4, 6, 100, 0, &m);
    make_devices(2, 1, 0, 0, 0, &d);
    d.device[1].speed = 0.5;
    assert_ok(choose(&m, &d, &fixed, &found));
    const sl_choice *best = &found.choice[0];
    assert_true(best->shape.uneven && best->split[0] == 4 && best->split[1] == 2);
    assert_int_equal(best->time, 48 * SL_MS);
    assert_near(best->tokens_per_s, 6000 / 0.048, 1);
    assert_true(found.bound <= 48 * SL_MS);
    sl_choices_free(&found);
    fixed.uneven = 0;
    assert_ok(choose(&m, &d, &fixed, &found));
    assert_int_equal(found.choice[0].time, 72 * SL_MS);
    assert_null(found.choice[0].split);
    sl_choices_free(&found);
    free_model(&m);
    free_devices(&d);
}

static sl_time planned(const sl_problem *p) {
    const sl_plan_options options = {.schedule = "auto", .time_limit = 0.1, .seed = 1, .threads = 1};
    sl_problem copy;
    sl_plan plan;
    assert_ok(sl_problem_copy(p, &copy));
    assert_ok(sl_plan_problem(&copy, &options, &plan));
    sl_time value = plan.value;
    sl_plan_free(&plan);
    sl_problem_free(&copy);
    return value;
}

/* Two replicas of two ranks on hosts of two speeds: every split, with the same cut of 6 equal layers in
 * halves. The replicas' problems are made here, not by the code that is tested. */
static void the_best_of_all_splits_is_found(void **state) {
    (void)state;
    enum { ALL = 10 };
    const double speeds[] = {0.8, 0.5, 0.31};
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
        sl_model_work m;
        sl_devices d;
        sl_choices found;
        sl_shape_fixed fixed = sl_shape_free();
        sl_time time[2][ALL], best = SL_TIME_NEVER, even = 0;
        fixed.data = fixed.pipeline = 2;
        fixed.chunks = fixed.size = 1;
        fixed.neighbors = SL_NEIGHBOR_STAGES;
        make_model(6, ALL, 1e6, 0, &m);
        make_devices(2, 2, 0, 1e5, 0.01, &d);
        d.device[2].speed = d.device[3].speed = speeds[i];
        for (int replica = 0; replica < 2; replica++)
            for (int microbatches = 1; microbatches < ALL; microbatches++) {
                sl_problem p;
                assert_ok(sl_problem_make(2, 2, microbatches, &p));
                for (int stage = 0; stage < 2; stage++)
                    for (int kind = 0; kind < SL_OP_KINDS; kind++)
                        p.time[kind][stage] =
                            llround((kind == SL_B ? 6 : 3) * (double)SL_MS / (replica ? speeds[i] : 1));
                time[replica][microbatches] = planned(&p);
                sl_problem_free(&p);
            }
        for (int first = 1; first < ALL; first++)
            best = sl_sooner(best, sl_later(time[0][first], time[1][ALL - first]));
        even = sl_later(time[0][ALL / 2], time[1][ALL / 2]);
        assert_ok(choose(&m, &d, &fixed, &found));
        const sl_choice *c = &found.choice[0];
        printf("speed %g: even %.3f ms, best split %.3f, found %.3f, bound %.3f\n", speeds[i], sl_to_ms(even),
               sl_to_ms(best), sl_to_ms(c->time), sl_to_ms(found.bound));
        assert_true((double)c->time <= 1.005 * (double)best && found.bound <= best);
        assert_true(best < even ? c->split && c->split[0] + c->split[1] == ALL : 1);
        sl_choices_free(&found);
        free_model(&m);
        free_devices(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replica_half_as_fast_gets_half_as_much),
        cmocka_unit_test(the_best_of_all_splits_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
