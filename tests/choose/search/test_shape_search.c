/* Shapes, positions, bounds and the search over shapes, on models small enough for a hand calculation or for
 * trying every shape. */
#include "check.h"

#include "base/memory.h"
#include "choose/search/positions.h"
#include "choose/search/shape_search.h"
#include "plan/pipeline/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MS 1e-3

/* Equal measured layers: F, I and W of 1 ms for one sequence, that keep `kept` bytes and have `parameters`.
 */
static void make_model(int layers, long long sequences, double kept, double parameters, sl_model_work *m) {
    *m = (sl_model_work){.context = 1000,
                         .sequences = sequences,
                         .layers = layers,
                         .kinds = 1,
                         .activation_bytes = 2,
                         .weight_bytes = 2,
                         .gradient_bytes = 2,
                         .optimizer_bytes = 4};
    m->layer = calloc((size_t)layers, sizeof *m->layer);
    m->kind = calloc(1, sizeof *m->kind);
    m->kind[0] = (sl_layer_sizes){.kind = SL_LAYER_MEASURED,
                                  .tensor = 1,
                                  .size = 1,
                                  .seconds = {MS, MS, MS},
                                  .kept = kept,
                                  .kept_for_w = kept,
                                  .input = kept / 10,
                                  .output = 1000,
                                  .parameters = parameters};
}

static void free_model(sl_model_work *m) {
    free(m->layer);
    free(m->kind);
}

/* `each` devices a host; between hosts as given, within a host for free. */
static void make_devices(int hosts, int each, double memory, double latency_ns, double pace, sl_devices *d) {
    *d = (sl_devices){.count = hosts * each, .hosts = hosts, .flops_per_s = 1e12, .bytes_per_s = 0};
    d->device = calloc((size_t)d->count, sizeof *d->device);
    d->latency = calloc((size_t)(hosts * hosts), sizeof *d->latency);
    d->pace = calloc((size_t)(hosts * hosts), sizeof *d->pace);
    for (int i = 0; i < d->count; i++)
        d->device[i] = (sl_cluster_device){.host = i / each, .speed = 1, .memory = memory};
    for (int i = 0; i < hosts * hosts; i++)
        if (i / hosts != i % hosts) {
            d->latency[i] = latency_ns;
            d->pace[i] = pace;
        }
}

static void free_devices(sl_devices *d) {
    free(d->device);
    free(d->latency);
    free(d->pace);
}

static double seconds = 2; /* of a search; more where the machine is busy */

static sl_status choose(const sl_model_work *m, const sl_devices *d, const sl_shape_fixed *fixed,
                        sl_choices *found) {
    const sl_choose_options options = {
        .fixed = *fixed, .time_limit = seconds, .most = 8, .threads = 2, .seed = 1};
    return sl_choose(m, d, &options, found);
}

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

/* The allreduce of 4 * 1e6 gradients of 2 bytes over two replicas: 2 passes of 1 latency and half of the 8
 * MB, at 1 ns a byte 8 ms in addition to the 24. With ZeRO 1 as much: the second pass is that of the weights.
 */
static void sums_over_replicas_count(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_choices found;
    sl_shape_fixed fixed = sl_shape_free();
    fixed.data = 2;
    make_model(4, 4, 100, 1e6, &m);
    make_devices(2, 1, 0, 1000, 1, &d);
    for (fixed.zero = 0; fixed.zero < 2; fixed.zero++) {
        assert_ok(choose(&m, &d, &fixed, &found));
        assert_near((double)found.choice[0].time, 32.0 * SL_MS + 4 * 2 * 1000, 10);
        assert_near(found.choice[0].parts.summed, 8e-3 + 8e-6, 1e-8);
        assert_near(found.choice[0].memory, 4e6 * (fixed.zero ? 6 : 8) + 400, 1);
        sl_choices_free(&found);
    }
    free_model(&m);
    free_devices(&d);
}

/* Two sites of two hosts with two devices; 5 ms between the sites, 1 ms within one. */
static void positions_know_what_crosses_a_site(void **state) {
    (void)state;
    sl_devices d;
    make_devices(4, 2, 0, 0, 0, &d);
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            d.latency[a * 4 + b] = a == b ? 0 : a / 2 == b / 2 ? 1e6 : 5e6;
    d.device[7].speed = 0.5;
    sl_shape s = {.division = {.tensor = 2, .context = 1, .expert = 1, .size = 1}, .data = 2, .pipeline = 2};
    sl_position_table plans = {.devices = &d};
    const sl_positions *positions;
    /* stage 0 on hosts 0 and 1, stage 1 on 2 and 3: the pipeline crosses, the rings do not */
    assert_ok(sl_positions_of(&plans, &s, &positions));
    assert_int_equal(sl_shape_device(&s, 1, 0, 1, 0), 3);
    assert_near(positions->hop_latency[0], 5e6, 0);
    assert_near(positions->ring_latency[0], 1e6, 0);
    assert_near(positions->latency[SL_WORK_TENSOR], 0, 0);
    assert_near(positions->speed[0], 1, 0);
    assert_near(positions->speed[1], 0.5, 0);
    /* replica 0 on hosts 0 and 1, replica 1 on 2 and 3 */
    s.neighbors = SL_NEIGHBOR_STAGES;
    assert_ok(sl_positions_of(&plans, &s, &positions));
    assert_int_equal(sl_shape_device(&s, 1, 0, 1, 0), 5);
    assert_near(positions->hop_latency[0], 1e6, 0);
    assert_near(positions->ring_latency[0], 5e6, 0);
    assert_near(positions->ring_latency[1], 5e6, 0);
    sl_position_table_free(&plans);
    free_devices(&d);
}

/* Every shape of eight devices: no plan beats its bound, and none that of the whole space; the search finds
 * the best within 0.5%. */
static void the_best_of_all_shapes_is_found(void **state) {
    (void)state;
    const struct {
        int layers, sequences;
        double kept, parameters, memory, latency, pace;
    } cases[] = {{10, 24, 1e6, 1e6, 0, 1e5, 0.05},
                 {8, 16, 4e6, 2e6, 60e6, 1e4, 0.2},
                 {9, 32, 1e6, 4e6, 120e6, 2e6, 0.01}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sl_model_work m;
        sl_devices d;
        sl_choices found;
        sl_shape *shape;
        size_t count;
        const sl_shape_fixed any = sl_shape_free();
        make_model(cases[i].layers, cases[i].sequences, cases[i].kept, cases[i].parameters, &m);
        make_devices(4, 2, cases[i].memory, cases[i].latency, cases[i].pace, &d);
        assert_ok(choose(&m, &d, &any, &found));
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
                sl_time time = plan.value + p.gather[0]; /* a makespan begins with the first F */
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
    free_model(&m);
    free_devices(&d);
}

/* Of 8 sequences: microbatches of 1, 2, 4 and 8, in every division into ranks. */
static void every_size_of_a_microbatch_is_searched(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_shape_fixed any = sl_shape_free();
    sl_shape *shape;
    size_t count;
    unsigned sizes[3] = {0}; /* by replicas */
    make_model(4, 8, 100, 0, &m);
    make_devices(2, 1, 0, 0, 0, &d);
    assert_ok(sl_shapes_list(&m, &d, &any, &shape, &count));
    for (size_t i = 0; i < count; i++)
        sizes[shape[i].data] |= 1u << shape[i].division.size;
    assert_int_equal(sizes[1], 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8);
    assert_int_equal(sizes[2], 1 << 1 | 1 << 2 | 1 << 4);
    sl_free(shape);
    free_model(&m);
    free_devices(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_of_a_microbatch_is_searched),
        cmocka_unit_test(free_sums_make_replicas_best),
        cmocka_unit_test(what_does_not_fit_is_divided),
        cmocka_unit_test(sums_over_replicas_count),
        cmocka_unit_test(positions_know_what_crosses_a_site),
        cmocka_unit_test(the_best_of_all_shapes_is_found),
        cmocka_unit_test(no_allocation_that_fails_leaks_or_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
