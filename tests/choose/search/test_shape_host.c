/* What is in host memory: the optimizer, and activations. */
#include "choose/search/small_cluster.h"

#include "plan/pipeline/layers.h"

/* A million parameters a layer: 4 MB of weights and gradients on the device, 4 MB of the optimizer's state on
 * the host. A byte takes 1 ns on each way, and the host's processor reads and writes 1e9 bytes per second: of
 * a layer 2 ms there, (2 * 4 + 2 + 2) MB in 12 ms, 2 ms back, so 4 * 12 + 2 + 2 ms after 4 * 4 * 3 ms. */
static void an_optimizer_on_the_host_costs_what_its_moves_take(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_choices found;
    sl_shape_fixed fixed = sl_shape_free();
    fixed.again = 0;
    make_model(4, 4, 100, 1e6, &m);
    make_devices(1, 1, 20e6, 0, 0, &d);
    assert_fails(choose(&m, &d, &fixed, &found), SL_ENONE, "fits into the memory");
    sl_choices_free(&found);
    d.host_memory = 16e6;
    d.host_pace = 1;
    d.host_bytes_per_s = 1e9;
    assert_ok(choose(&m, &d, &fixed, &found));
    assert_true(sl_hosts_optimizer(found.choice[0].shape.offload));
    assert_near((double)found.choice[0].time, (48 + 52) * (double)SL_MS, 10);
    assert_near(found.choice[0].parts.update, 52e-3, 1e-9);
    assert_near(found.choice[0].memory, 16e6 + 1000, 600); /* one to four sequences of 4 layers */
    assert_near(found.choice[0].host_memory, 16e6, 1);
    sl_choices_free(&found);
    d.host_memory = 15.9e6;
    assert_fails(choose(&m, &d, &fixed, &found), SL_ENONE, "fits into the memory");
    sl_choices_free(&found);
    free_devices(&d);
    /* two pipeline ranks whose hosts have room for two layers each */
    make_devices(2, 1, 20e6, 0, 0, &d);
    d.host_memory = 8e6;
    d.host_pace = 1;
    d.host_bytes_per_s = 1e9;
    fixed.pipeline = 2;
    fixed.chunks = 1;
    fixed.offload = 1 << SL_HOST_OPTIMIZER;
    assert_ok(choose(&m, &d, &fixed, &found));
    assert_int_equal(found.choice[0].problem.layers->first[1], 2);
    assert_near(found.choice[0].parts.update, 28e-3, 1e-9);
    sl_choices_free(&found);
    d.host_memory = 7.9e6;
    assert_fails(choose(&m, &d, &fixed, &found), SL_ENONE, "memory of the devices");
    sl_choices_free(&found);
    free_model(&m);
    free_devices(&d);
}

/* Two ranks with room for one microbatch each. The first rank has it from F until W: its own three ops, and
 * F and I of the second, so 5 ms for each of 4 microbatches. With host memory, which is fast here, both ranks
 * can have more in flight; the second begins after 1 ms and has 12 ms of work. */
static void activations_move_to_the_host_where_memory_binds(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_choices found;
    sl_shape_fixed fixed = sl_shape_free();
    fixed.pipeline = 2;
    fixed.size = 1;
    fixed.again = 0;
    make_model(2, 4, 10e6, 0, &m);
    make_devices(2, 1, 12e6, 0, 0, &d);
    assert_ok(choose(&m, &d, &fixed, &found));
    assert_int_equal(found.choice[0].time, 20 * SL_MS);
    sl_choices_free(&found);
    d.host_memory = 45e6; /* 4 activations */
    d.host_pace = 0.01;
    d.host_bytes_per_s = 1e9;
    assert_ok(choose(&m, &d, &fixed, &found));
    const sl_choice *best = &found.choice[0];
    printf("with host memory: %.4f ms, bound %.4f\n", sl_to_ms(best->time), sl_to_ms(found.bound));
    assert_true(sl_hosts_activations(best->shape.offload));
    assert_true(best->time >= 13 * SL_MS && best->time <= 18 * SL_MS && found.bound <= best->time);
    assert_int_equal(best->problem.host_limit[0], 4);
    assert_int_equal(best->problem.offload[0], SL_MS / 10);
    assert_true(best->memory <= 12e6 && best->host_memory >= 10e6 && best->host_memory <= 45e6);
    sl_choices_free(&found);
    fixed.offload = 1 << SL_HOST_NOTHING;
    assert_ok(choose(&m, &d, &fixed, &found));
    assert_int_equal(found.choice[0].time, 20 * SL_MS);
    sl_choices_free(&found);
    free_model(&m);
    free_devices(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_optimizer_on_the_host_costs_what_its_moves_take),
        cmocka_unit_test(activations_move_to_the_host_where_memory_binds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
