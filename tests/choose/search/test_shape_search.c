/* The search over shapes, on models small enough for a hand calculation or for trying every shape. */
#include "choose/search/small_cluster.h"

#include "choose/search/positions.h"
#include "choose/search/shape_arrange.h"

#include <math.h>

/* Two devices, four layers, four sequences: each replica takes two, 2 * 4 * 3 ms; a pipeline has ends in
 * addition. */
static void free_sums_make_replicas_best(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_choices found;
    const sl_shape_fixed any = sl_shape_free();
    make_model(4, 4, 100, 0, &m);
    make_devices(2, 1, 0, 0, 0, &d);
    assert_ok(choose(&m, &d, &any, &found));
    assert_int_equal(found.choice[0].shape.data, 2);
    assert_int_equal(found.choice[0].shape.pipeline, 1);
    assert_int_equal(found.choice[0].time, 24 * SL_MS);
    assert_near(found.choice[0].tokens_per_s, 4000 / 0.024, 1);
    assert_true(found.bound <= 24 * SL_MS);
    sl_choices_free(&found);
    free_model(&m);
    free_devices(&d);
}

/* A million parameters a layer take 2 + 2 + 4 bytes each, 32 MB in all; a device has 20 MB. */
static void what_does_not_fit_is_divided(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_choices found;
    sl_shape_fixed fixed = sl_shape_free();
    fixed.zero = 0;
    make_model(4, 4, 100, 1e6, &m);
    make_devices(2, 1, 20e6, 0, 0, &d);
    assert_ok(choose(&m, &d, &fixed, &found));
    assert_int_equal(found.choice[0].shape.pipeline, 2);
    assert_true(found.choice[0].memory <= 20e6 && found.choice[0].memory >= 16e6);
    sl_choices_free(&found);
    fixed.data = 2;
    assert_fails(choose(&m, &d, &fixed, &found), SL_ENONE, "fits into the memory");
    sl_choices_free(&found);
    fixed.data = 3;
    assert_fails(choose(&m, &d, &fixed, &found), SL_ENONE,
                 "no shape divides 4 sequences of 4 layers over 2 devices");
    sl_choices_free(&found);
    free_model(&m);
    free_devices(&d);
}

/* Every shape of eight devices: no plan beats its bound, and none that of the whole space; the search finds
 * the best within 0.5%. */
static void the_best_of_all_shapes_is_found(void **state) {
    (void)state;
    const struct {
        int layers, sequences;
        double kept, parameters, memory, latency, pace, host;
    } cases[] = {{10, 24, 1e6, 1e6, 0, 1e5, 0.05, 0},
                 {8, 16, 4e6, 2e6, 60e6, 1e4, 0.2, 0},
                 {9, 32, 1e6, 4e6, 120e6, 2e6, 0.01, 0},
                 {8, 16, 4e6, 2e6, 30e6, 1e4, 0.2, 30e6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sl_model_work m;
        sl_devices d;
        sl_choices found;
        sl_shape *shape;
        size_t count;
        const sl_shape_fixed any = sl_shape_free();
        make_model(cases[i].layers, cases[i].sequences, cases[i].kept, cases[i].parameters, &m);
        make_devices(4, 2, cases[i].memory, cases[i].latency, cases[i].pace, &d);
        d.host_memory = cases[i].host;
        d.host_pace = 0.05;
        d.host_bytes_per_s = 50e9;
        for (int again = 0; again < 3 && choose(&m, &d, &any, &found) == SL_ENONE; again++) {
            sl_choices_free(&found); /* too little time on a busy machine */
            seconds *= 4;
        }
        assert_true(found.count > 0);
        assert_ok(sl_shapes_list(&m, &d, &any, &shape, &count));
        assert_int_equal(count, found.shapes);
        sl_position_table plans = {.devices = &d};
        double best = INFINITY;
        for (size_t k = 0; k < count; k++) {
            sl_problem p;
            sl_plan plan;
            sl_shape_parts parts;
            sl_shape_bound bound;
            const sl_positions *positions;
            const sl_plan_options options = {.schedule = "auto", .time_limit = 0.02, .seed = 1, .threads = 1};
            assert_int_equal(sl_shape_devices(&shape[k]), 8);
            assert_int_equal(shape[k].data * shape[k].microbatches * shape[k].division.size,
                             cases[i].sequences);
            assert_ok(sl_positions_of(&plans, &shape[k], &positions));
            assert_ok(sl_shape_problem(&m, &d, positions, &shape[k], shape[k].microbatches, &p, &parts));
            assert_ok(sl_shape_bound_of(&p, &parts, &bound));
            if (sl_plan_problem(&p, &options, &plan) == SL_OK) {
                sl_time time = plan.value + p.gather[0] + /* a makespan begins with the first F */
                               (sl_time)(parts.update * 1e9);
                assert_true(bound.time <= time);
                assert_true(found.bound <= time);
                best = fmin(best, (double)time);
            }
            sl_plan_free(&plan);
            sl_problem_free(&p);
        }
        printf("%zu shapes, best %.4f ms, found %.4f, bound %.4f\n", count, best / 1e6,
               sl_to_ms(found.choice[0].time), sl_to_ms(found.bound));
        for (int again = 0; again < 2 && (double)found.choice[0].time > 1.005 * best; again++) {
            sl_choices_free(&found);
            seconds *= 4;
            assert_ok(choose(&m, &d, &any, &found));
        }
        seconds = 2;
        assert_true((double)found.choice[0].time <= 1.005 * best);
        for (int k = 1; k < found.count; k++)
            assert_true(found.choice[k].time >= found.choice[k - 1].time &&
                        found.choice[k].memory < found.choice[k - 1].memory);
        sl_position_table_free(&plans);
        sl_free(shape);
        sl_choices_free(&found);
        free_model(&m);
        free_devices(&d);
    }
}

static void no_allocation_that_fails_leaks_or_lies(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_choices found;
    sl_choose_options options = {.fixed = sl_shape_free(), .time_limit = 0.05, .most = 2, .threads = 1};
    options.fixed.pipeline = 2;
    options.fixed.zero = 0;
    make_model(3, 2, 100, 0, &m);
    make_devices(2, 1, 0, 0, 0, &d);
    sl_status status = SL_ENOMEM;
    for (long n = 0; n < 100000000 && status != SL_OK; n = n < 300 ? n + 1 : n + n / 3) {
        sl_alloc_fail_at(n);
        status = sl_choose(&m, &d, &options, &found);
        sl_alloc_fail_at(-1);
        assert_true(status == SL_OK || status == SL_ENOMEM);
        sl_choices_free(&found);
    }
    assert_int_equal(status, SL_OK);
    d.device[1].speed = 0.5; /* positions matter */
    assert_ok(sl_choose(&m, &d, &options, &found));
    sl_position_table positions = {.devices = &d};
    const sl_shape_planning planning = {
        .model = &m, .devices = &d, .options = &options, .positions = &positions};
    status = SL_ENOMEM;
    for (long n = 0; status != SL_OK; n = n < 300 ? n + 1 : n + n / 3) {
        sl_alloc_fail_at(n);
        status = sl_arrange(&planning, 0, 1, &found.choice[0]);
        sl_alloc_fail_at(-1);
        assert_true(status == SL_OK || status == SL_ENOMEM);
    }
    sl_choices_free(&found);
    sl_position_table_free(&positions);
    free_model(&m);
    free_devices(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_sums_make_replicas_best),
        cmocka_unit_test(what_does_not_fit_is_divided),
        cmocka_unit_test(the_best_of_all_shapes_is_found),
        cmocka_unit_test(no_allocation_that_fails_leaks_or_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
