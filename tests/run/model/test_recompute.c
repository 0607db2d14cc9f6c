/* A stage that recomputes keeps less of a microbatch, by the formula, and gives the same bits. */
#include "run/model/team.h"

#include "base/memory.h"

static const sl_model_config gpt2 = {
    .layers = 4, .width = 32, .heads = 2, .context = 16, .vocabulary = 256, .batch = 2};
static const sl_model_config llama = {.kind = SL_MODEL_LLAMA,
                                      .layers = 5,
                                      .width = 48,
                                      .heads = 6,
                                      .kv_heads = 3,
                                      .context = 13,
                                      .vocabulary = 300,
                                      .batch = 2};

enum { STAGES = 2, MICROBATCHES = 3 };

/* Ops in `parts`, F of all microbatches part by part, so that others' parts lie between. */
static double iterate_in_parts(trial *t, int parts) {
    double loss = 0;
    for (int s = 0; s < STAGES; s++)
        assert_ok(sl_model_begin(t->stage[s], MICROBATCHES));
    const size_t tokens = (size_t)t->config.batch * (size_t)t->config.context;
    for (int s = 0; s < STAGES; s++)
        for (int p = 0; p < parts; p++)
            for (int m = 0; m < MICROBATCHES; m++)
                assert_ok(sl_model_forward_part(
                    t->stage[s], m, (sl_op_part){p, parts}, t->tokens + (size_t)m * tokens,
                    t->targets + (size_t)m * tokens, trial_flow(t, s - 1, m), trial_flow(t, s, m)));
    for (int s = STAGES - 1; s >= 0; s--)
        for (int p = 0; p < parts; p++)
            for (int m = 0; m < MICROBATCHES; m++) {
                assert_ok(sl_model_input_grad_part(t->stage[s], m, (sl_op_part){p, parts},
                                                   trial_flow(t, s, m), trial_flow(t, s - 1, m)));
                assert_ok(sl_model_weight_grad_part(t->stage[s], m, (sl_op_part){p, parts}));
            }
    for (int m = 0; m < MICROBATCHES; m++)
        loss += sl_model_loss(t->stage[STAGES - 1], m);
    if (sl_model_head(t->stage[STAGES - 1]))
        assert_ok(sl_model_add_head(t->stage[0], sl_model_head(t->stage[STAGES - 1])->gradient, 0));
    return loss / MICROBATCHES;
}

static void compare(const sl_model_config *config, const int *recompute, int parts, uint64_t seed,
                    const picture *reference) {
    sl_model_config c = *config;
    picture p;
    trial t;
    c.recompute = recompute;
    picture_open(&p, &c);
    trial_open(&t, &c, STAGES, MICROBATCHES, seed);
    trial_blur(&t, 3);
    p.loss[0] = parts ? iterate_in_parts(&t, parts) : trial_iterate(&t, TRIAL_OVERLAP);
    picture_take(&p, &t, 0);
    trial_close(&t);
    assert_memory_equal(&p.loss[0], &reference->loss[0], sizeof p.loss[0]);
    assert_memory_equal(p.gradient[0], reference->gradient[0], p.count * sizeof(float));
    picture_close(&p);
}

static void the_same_bits_come_out_whole_and_in_parts(void **state) {
    (void)state;
    const int all[] = {1, 1}, first[] = {1, 0}, last[] = {0, 1};
    const sl_model_config *configs[] = {&gpt2, &llama};
    uint64_t seed = trial_seed();
    for (int kind = 0; kind < 2; kind++) {
        picture reference;
        trial t;
        picture_open(&reference, configs[kind]);
        trial_open(&t, configs[kind], STAGES, MICROBATCHES, seed);
        trial_blur(&t, 3);
        reference.loss[0] = trial_iterate(&t, TRIAL_PHASES);
        picture_take(&reference, &t, 0);
        trial_close(&t);
        for (int parts = 0; parts <= 7; parts++) {
            compare(configs[kind], all, parts, seed, &reference);
            compare(configs[kind], NULL, parts, seed, &reference);
        }
        compare(configs[kind], first, 0, seed, &reference);
        compare(configs[kind], last, 0, seed, &reference);
        picture_close(&reference);
    }
}

/* As test_stage.c, two blocks of the first of two stages, n = 32 rows, w = 32: F keeps the inputs of both,
 * one place more for the stream between parts and the tokens; I adds what F would have kept to what it adds
 * anyway.
 */
static void kept_bytes_are_those_of_the_formula(void **state) {
    (void)state;
    const int all[] = {1, 1};
    sl_model_config c = gpt2;
    sl_model_bytes kept, again;
    sl_device *device;
    assert_ok(sl_device_open_cpu(1, &device));
    assert_ok(sl_model_measure(&c, device, 0, 2, &kept));
    c.recompute = all;
    assert_ok(sl_model_measure(&c, device, 0, 2, &again));
    const size_t block = 4 * (10 * 32 * 32 + 2 * 32 + 2 * 32);
    assert_int_equal(again.forward, 4 * 3 * 32 * 32 + 64);
    assert_int_equal(again.backward, kept.backward + 2 * block);
    assert_int_equal(again.fixed, kept.fixed + block); /* where F works */
    device->close(device);
}

static void memory_is_what_was_measured(void **state) {
    (void)state;
    const int all[] = {1, 1};
    sl_model_config c = gpt2;
    sl_model_bytes b;
    trial t;
    c.recompute = all;
    trial_open(&t, &c, 2, 3, 1);
    assert_ok(sl_model_measure(&c, t.device, 0, 2, &b));
    for (int s = 0; s < 2; s++)
        assert_ok(sl_model_begin(t.stage[s], 3));
    for (int m = 0; m < 3; m++)
        trial_forward(&t, m);
    assert_int_equal(sl_arena_peak(t.arena[0]), b.fixed + 3 * b.forward);
    trial_input_grad(&t, 0);
    assert_int_equal(sl_arena_peak(t.arena[0]), b.fixed + 3 * b.forward + b.backward);
    trial_weight_grad(&t, 0);
    assert_int_equal(sl_arena_in_use(t.arena[0]), b.fixed + 2 * b.forward);
    trial_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits_come_out_whole_and_in_parts),
        cmocka_unit_test(kept_bytes_are_those_of_the_formula),
        cmocka_unit_test(memory_is_what_was_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
