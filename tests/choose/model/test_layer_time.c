/* Times of a layer, by hand. */
#include "models.h"

#include <math.h>

enum { F, I, W };

/* 1e12 operations and 1e9 bytes per second, 1 ms for starting; links of 1 ms and 1e6 bytes per second. */
static const sl_work_rates rates = {.flops_per_s = 1e12,
                                    .bytes_per_s = 1e9,
                                    .overhead_s = 1e-3,
                                    .speed = 1,
                                    .latency_s = {1e-3, 1e-3, 1e-3},
                                    .s_per_byte = {1e-6, 1e-6, 1e-6}};

static sl_layer_seconds time_of(const sl_layer_work *work, double speed) {
    sl_layer_seconds seconds;
    sl_work_rates r = rates;
    r.speed = speed;
    sl_layer_time(work, &r, &seconds);
    return seconds;
}

static void an_op_takes_the_longer_of_arithmetic_and_memory(void **state) {
    (void)state;
    sl_layer_work w = {.flops = {3e12, 1e12, 0}, .moved = {1e9, 2e9, 0}};
    sl_layer_seconds s = time_of(&w, 1);
    assert_near(s.computed[F], 3.001, 1e-12);
    assert_near(s.computed[I], 2.001, 1e-12);
    assert_near(s.computed[W], 0, 0); /* there is none to start */
    s = time_of(&w, 0.5);             /* starting takes as long as before */
    assert_near(s.computed[F], 6.001, 1e-12);
}

static void recomputation_is_in_i(void **state) {
    (void)state;
    sl_layer_work w = {.flops = {4e12, 4e12, 4e12}, .again = 1};
    assert_near(time_of(&w, 1).computed[I], 8.002, 1e-12);
    assert_near(time_of(&w, 1).computed[W], 4.001, 1e-12);
    w.again = 0.25;
    assert_near(time_of(&w, 1).computed[I], 4.001 + 0.25 * 4.001, 1e-12);
}

static void measured_times_need_only_the_speed(void **state) {
    (void)state;
    sl_layer_work w = {.seconds = {2, 3, 4}};
    sl_layer_seconds s = time_of(&w, 0.5);
    assert_near(s.computed[F], 4, 0);
    assert_near(s.computed[W], 8, 0);
}

static void messages_take_steps_of_latency_and_their_bytes(void **state) {
    (void)state;
    sl_layer_work w = {.flops = {1e12, 1e12, 1e12}};
    w.traffic[SL_WORK_TENSOR][F] = (sl_work_traffic){.steps = 6, .bytes = 2e6};
    w.traffic[SL_WORK_EXPERT][I] = (sl_work_traffic){.steps = 2, .bytes = 1e6};
    sl_layer_seconds s = time_of(&w, 1);
    assert_near(s.sent[SL_WORK_TENSOR][F], 2.006, 1e-12);
    assert_near(s.sent[SL_WORK_EXPERT][I], 1.002, 1e-12);
    assert_near(s.sent[SL_WORK_EXPERT][F], 0, 0);
    assert_near(s.computed[F], 1.001, 1e-12);
}

/* Blocks of keys and values pass while attention computes on the blocks before: 1 s of F, 2.5 s of I. */
static void context_traffic_counts_beyond_the_attention(void **state) {
    (void)state;
    sl_layer_work w = {.flops = {4e12, 5.5e12, 3e12}, .attention_flops = {1e12, 2.5e12, 0}};
    w.traffic[SL_WORK_CONTEXT][F] = (sl_work_traffic){.steps = 3, .bytes = 2e6};
    w.traffic[SL_WORK_CONTEXT][I] = (sl_work_traffic){.steps = 3, .bytes = 2e6};
    sl_layer_seconds s = time_of(&w, 1);
    assert_near(s.sent[SL_WORK_CONTEXT][F], 1.003, 1e-12);
    assert_near(s.sent[SL_WORK_CONTEXT][I], 0, 0);
    /* recomputed: both pass in I, while both attentions compute */
    w.again = 1;
    w.traffic[SL_WORK_CONTEXT][I] = (sl_work_traffic){.steps = 6, .bytes = 4e6};
    assert_near(time_of(&w, 1).sent[SL_WORK_CONTEXT][I], 4.006 - 3.5, 1e-12);
    /* a slow device hides more */
    assert_near(time_of(&w, 0.5).sent[SL_WORK_CONTEXT][F], 0.003, 1e-12);
}

static void gathers_of_w_count_beyond_w(void **state) {
    (void)state;
    sl_layer_work w = {.flops = {1e12, 1e12, 2e12}};
    w.traffic[SL_WORK_TENSOR][W] = (sl_work_traffic){.steps = 1, .bytes = 3e6};
    assert_near(time_of(&w, 1).sent[SL_WORK_TENSOR][W], 3.001 - 2.001, 1e-12);
    w.traffic[SL_WORK_TENSOR][W].bytes = 1e6;
    assert_near(time_of(&w, 1).sent[SL_WORK_TENSOR][W], 0, 0);
}

/* Any layer in any possible division: times are finite and not negative, and a division over more tensor
 * ranks never computes longer. */
static void times_are_finite_and_divide(void **state) {
    (void)state;
    sl_model_work model;
    make_model(
        "model: {layers: 2, width: 64, heads: 8, hidden: 256, gated: true, vocabulary: 1000, context: 64, "
        "experts: 8, experts_per_token: 2, expert_hidden: 128, shared_experts: 1, dense_layers: 1}\n"
        "batch: {sequences: 1}\n",
        &model);
    for (int layer = 0; layer < model.layers; layer++)
        for (int mode = 0; mode < 16; mode++) {
            sl_layer_seconds before = {.computed = {INFINITY, INFINITY, INFINITY}};
            for (int t = 1; t <= 8; t *= 2) {
                sl_division d = {.tensor = t,
                                 .context = mode & 1 ? 2 : 1,
                                 .expert = mode & 2 ? 4 : 1,
                                 .size = 2,
                                 .sequence_parallel = (mode & 4) > 0,
                                 .recompute = mode & 8 ? SL_RECOMPUTE_ALL : SL_KEEP_ALL};
                sl_layer_work w = work_of(&model, layer, &d);
                sl_layer_seconds s = time_of(&w, 1);
                for (int op = F; op <= W; op++) {
                    assert_true(isfinite(s.computed[op]) && s.computed[op] >= 0);
                    assert_true(s.computed[op] <= before.computed[op] + 1e-12);
                    for (int group = 0; group < SL_WORK_GROUPS; group++)
                        assert_true(isfinite(s.sent[group][op]) && s.sent[group][op] >= 0);
                }
                assert_true(w.kept >= 0 && w.kept_for_w >= 0 && w.gradients >= 0 && w.parameters > 0);
                before = s;
            }
        }
    sl_model_work_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_op_takes_the_longer_of_arithmetic_and_memory),
        cmocka_unit_test(recomputation_is_in_i),
        cmocka_unit_test(measured_times_need_only_the_speed),
        cmocka_unit_test(messages_take_steps_of_latency_and_their_bytes),
        cmocka_unit_test(context_traffic_counts_beyond_the_attention),
        cmocka_unit_test(gathers_of_w_count_beyond_w),
        cmocka_unit_test(times_are_finite_and_divide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
