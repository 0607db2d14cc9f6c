/* Work of layers: flops by Narayanan et al. 2021, activations by Korthikanti et al. 2022, traffic and memory
 * by hand. */
#include "models.h"

enum { F, I, W };

/* ---- flops ---- */

/* Equation 3 of Narayanan et al.: F of 24 B s h^2 + 4 B s^2 h per layer, twice that backwards, F once more;
 * the logits without it: 96 B s l h^2 (1 + s / 6h + V / 16lh). */
static void an_iteration_has_the_flops_of_narayanan(void **state) {
    (void)state;
    static const double size[][4] = {
        {24, 2304, 24, 512}, {80, 12288, 96, 2304}, {96, 12288, 96, 1536}, {128, 25600, 160, 3072}};
    for (int i = 0; i < 4; i++) {
        sl_model_work model;
        double l = size[i][0], h = size[i][1], b = size[i][3], s = 2048, v = 51200, sum = 0;
        make_gpt((int)l, (int)h, (int)size[i][2], 2048, 51200, &model);
        sl_division d = whole(1);
        d.recompute = SL_RECOMPUTE_ALL;
        for (int layer = 0; layer < model.layers; layer++) {
            sl_layer_work w = work_of(&model, layer, &d);
            sum += w.flops[F] * (1 + w.again) + w.flops[I] + w.flops[W];
        }
        double expected = 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
        assert_near(b * sum / expected, 1, 1e-12);
        sl_model_work_free(&model);
    }
}

/* Products half in I and half in W; all of the attention's backward in I: twice F, or 2.5 times with flash,
 * which needs half in all if it is causal. */
static void the_backward_is_divided_into_input_and_weights(void **state) {
    (void)state;
    sl_model_work model;
    make_gpt(1, 64, 4, 32, 100, &model);
    sl_division d = whole(3);
    sl_layer_work w = work_of(&model, 1, &d);
    double products = 24 * 3 * 32 * 64 * 64, inner = 4.0 * 3 * 32 * 32 * 64;
    assert_near(w.flops[F], products + inner, 0);
    assert_near(w.flops[I], products + 2 * inner, 0);
    assert_near(w.flops[W], products, 0);
    model.flash = 1;
    w = work_of(&model, 1, &d);
    assert_near(w.flops[F], products + inner / 2, 0);
    assert_near(w.flops[I], products + 2.5 * inner / 2, 0);
    assert_near(w.attention_flops[I], 2.5 * inner / 2, 0);
    sl_model_work_free(&model);
}

/* h 64, 8 heads of 8, 2 of keys and values, MLP 96 gated: per token 2 (64 * (64 + 16 + 16) + 64 * 64 + 3 * 64
 * * 96) for the products, divided by tensor ranks. */
static void grouped_heads_and_gated_mlps_are_counted(void **state) {
    (void)state;
    sl_model_work model;
    make_model(
        "model: {layers: 1, width: 64, heads: 8, kv_heads: 2, hidden: 96, gated: true, vocabulary: 10, "
        "context: 16}\nbatch: {sequences: 1}\n",
        &model);
    sl_division d = whole(1);
    double products = 64 * 96 + 64 * 64 + 3 * 64 * 96;
    assert_near(work_of(&model, 1, &d).flops[W], 2 * 16 * products, 0);
    assert_near(work_of(&model, 1, &d).parameters, products + 2 * 64, 0);
    d.tensor = 2;
    assert_near(work_of(&model, 1, &d).flops[W], 16 * products, 0);
    assert_near(work_of(&model, 1, &d).parameters, products / 2 + 2 * 64, 0);
    sl_model_work_free(&model);
}

/* ---- activations ---- */

/* Table 3 of Korthikanti et al.: heads, width, layers, tensor ranks, microbatch. */
static const int korthikanti[][5] = {
    {64, 6144, 48, 8, 4}, {96, 12288, 96, 8, 1}, {128, 20480, 105, 8, 1}, {160, 25600, 128, 8, 1}};

/* Their table 2: bytes of a layer: none: sbh (34 + 5as/h); tensor: sbh (10 + 24/t + 5as/ht); and sequence
 * parallel: sbh/t (34 + 5as/h); selective recomputation: without 5as/h; full: 2sbh. */
static void a_layer_keeps_the_activations_of_korthikanti(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        sl_model_work model;
        double a = korthikanti[i][0], h = korthikanti[i][1], t = korthikanti[i][3], b = korthikanti[i][4],
               s = 2048, sbh = s * b * h, scores = 5 * a * s / h;
        make_gpt(korthikanti[i][2], (int)h, (int)a, 2048, 51200, &model);
        sl_division d = whole(korthikanti[i][4]);
        assert_near(work_of(&model, 1, &d).kept / (sbh * (34 + scores)), 1, 1e-12);
        d.tensor = (int)t;
        assert_near(work_of(&model, 1, &d).kept / (sbh * (10 + 24 / t + scores / t)), 1, 1e-12);
        d.recompute = SL_RECOMPUTE_ATTENTION;
        assert_near(work_of(&model, 1, &d).kept / (sbh * (10 + 24 / t)), 1, 1e-12);
        d.sequence_parallel = 1;
        assert_near(work_of(&model, 1, &d).kept / (sbh / t * 34), 1, 1e-12);
        d.recompute = SL_KEEP_ALL;
        assert_near(work_of(&model, 1, &d).kept / (sbh / t * (34 + scores)), 1, 1e-12);
        d.sequence_parallel = 0;
        d.recompute = SL_RECOMPUTE_ALL;
        assert_near(work_of(&model, 1, &d).kept, 2 * sbh, 0);
        sl_model_work_free(&model);
    }
}

/* Section 5: selective recomputation saves 70% for 175B and 65% for 530B; 5as/h is 80 and 64. */
static void selective_recomputation_saves_what_the_paper_says(void **state) {
    (void)state;
    static const double saved[] = {0.70, 0.65};
    for (int i = 0; i < 2; i++) {
        sl_model_work model;
        const int *is = korthikanti[i + 1];
        make_gpt(is[2], is[1], is[0], 2048, 51200, &model);
        sl_division all = whole(1), selective = all;
        all.tensor = selective.tensor = 8;
        all.sequence_parallel = selective.sequence_parallel = 1;
        selective.recompute = SL_RECOMPUTE_ATTENTION;
        double share = 1 - work_of(&model, 1, &selective).kept / work_of(&model, 1, &all).kept;
        assert_near(share, saved[i], 0.005);
        sl_model_work_free(&model);
    }
}

/* Section 4.3: with one stage, the last norm, the head's input and the f32 logits: 4sbh/t (1 + v/h). */
static void the_head_keeps_norm_input_and_logits(void **state) {
    (void)state;
    sl_model_work model;
    make_gpt(2, 12288, 96, 2048, 51200, &model);
    sl_division d = whole(1);
    d.tensor = 8;
    d.sequence_parallel = 1;
    double sbh = 2048.0 * 12288;
    assert_near(work_of(&model, 3, &d).kept / (4 * sbh / 8 * (1 + 51200 / 12288.0)), 1, 1e-12);
    sl_model_work_free(&model);
}

/* Table 1 of Zero Bubble (Qi et al. 2023): W needs 32 sbh. */
static void w_needs_inputs_and_gradients_of_products(void **state) {
    (void)state;
    sl_model_work model;
    make_gpt(2, 4096, 32, 1024, 50000, &model);
    sl_division d = whole(6);
    assert_near(work_of(&model, 1, &d).kept_for_w, 32.0 * 1024 * 6 * 4096, 0);
    d.recompute = SL_RECOMPUTE_ALL; /* the same: I has computed them again */
    assert_near(work_of(&model, 1, &d).kept_for_w, 32.0 * 1024 * 6 * 4096, 0);
    sl_model_work_free(&model);
}

/* Without dropout and with flash: 32 sbh instead of 34, and 4 bytes per token and head. */
static void flash_keeps_a_number_per_token_and_head(void **state) {
    (void)state;
    sl_model_work model;
    make_gpt(2, 4096, 32, 1024, 50000, &model);
    model.flash = 1;
    model.kind[1].dropout = 0;
    sl_division d = whole(2);
    assert_near(work_of(&model, 1, &d).kept, 32.0 * 1024 * 2 * 4096 + 4.0 * 1024 * 2 * 32, 0);
    d.recompute = SL_RECOMPUTE_ATTENTION;
    assert_fails(sl_division_check(&model, &d), SL_EINVAL, "flash attention");
    sl_model_work_free(&model);
}

/* ---- traffic ---- */

/* 4 ranks, V = 2 bytes * 32 tokens * 64. Two allreduces in F and in I, each 2 (n - 1) steps and 2 (n - 1) / n
 * V. */
static void tensor_ranks_add_up_twice_in_each_direction(void **state) {
    (void)state;
    sl_model_work model;
    make_gpt(1, 64, 4, 32, 100, &model);
    sl_division d = whole(1);
    d.tensor = 4;
    double v = 2 * 32 * 64;
    sl_layer_work w = work_of(&model, 1, &d);
    for (int op = F; op <= I; op++) {
        assert_near(w.traffic[SL_WORK_TENSOR][op].steps, 12, 0);
        assert_near(w.traffic[SL_WORK_TENSOR][op].bytes, 2 * 2 * 0.75 * v, 0);
    }
    assert_near(w.traffic[SL_WORK_TENSOR][W].bytes, 0, 0);
    assert_near(w.output, v, 0);
    /* sequence parallel: as much, and a gather of two inputs and two gradients in W; messages of a quarter */
    d.sequence_parallel = 1;
    w = work_of(&model, 1, &d);
    assert_near(w.traffic[SL_WORK_TENSOR][F].bytes, 2 * 2 * 0.75 * v, 0);
    assert_near(w.traffic[SL_WORK_TENSOR][W].steps, 12, 0);
    assert_near(w.traffic[SL_WORK_TENSOR][W].bytes, 4 * 0.75 * v, 0);
    assert_near(w.output, v / 4, 0);
    /* recomputed: F's once more in I */
    d.recompute = SL_RECOMPUTE_ALL;
    assert_near(work_of(&model, 1, &d).traffic[SL_WORK_TENSOR][I].bytes, 4 * 2 * 0.75 * v, 0);
    assert_near(work_of(&model, 1, &d).traffic[SL_WORK_TENSOR][I].steps, 24, 0);
    sl_model_work_free(&model);
}

/* 4 ranks with 16 of 64 tokens each: keys and values, 2 bytes * 16 * 2 * 16, pass to three others; in I with
 * their gradients. */
static void context_ranks_pass_keys_and_values_around(void **state) {
    (void)state;
    sl_model_work model;
    make_model(
        "model: {layers: 1, width: 64, heads: 8, kv_heads: 2, gated: true, vocabulary: 10, context: 64}\n"
        "batch: {sequences: 1}\n",
        &model);
    sl_division one = whole(1), d = one;
    d.context = 4;
    sl_layer_work w = work_of(&model, 1, &d);
    assert_near(w.traffic[SL_WORK_CONTEXT][F].steps, 3, 0);
    assert_near(w.traffic[SL_WORK_CONTEXT][F].bytes, 3 * 2 * 16 * 32, 0);
    assert_near(w.traffic[SL_WORK_CONTEXT][I].bytes, 2 * 3 * 2 * 16 * 32, 0);
    assert_near(w.traffic[SL_WORK_CONTEXT][W].bytes, 0, 0);
    for (int op = F; op <= W; op++)
        assert_near(4 * w.flops[op], work_of(&model, 1, &one).flops[op], 1e-6);
    assert_near(4 * w.kept, work_of(&model, 1, &one).kept, 1e-6);
    assert_near(w.parameters, work_of(&model, 1, &one).parameters, 0);
    sl_model_work_free(&model);
}

#define EXPERTS                                                                                              \
    "model: {layers: 2, width: 64, heads: 4, hidden: 256, gated: true, vocabulary: 10, context: 32, "        \
    "experts: 8, "                                                                                           \
    "experts_per_token: 2, expert_hidden: 128, dense_layers: 1}\nbatch: {sequences: 1}\n"

/* 8 experts of 3 * 64 * 128 on 4 ranks: 2 each. A token is sent to 2 of them, 3 of 4 times to another rank.
 */
static void tokens_pass_to_experts_and_back(void **state) {
    (void)state;
    sl_model_work model;
    make_model(EXPERTS, &model);
    sl_division d = whole(1);
    d.expert = 4;
    sl_layer_work w = work_of(&model, 2, &d), dense = work_of(&model, 1, &d);
    double tokens = 32, expert = 3 * 64 * 128, router = 64 * 8, attention = 4 * 64 * 64;
    assert_near(w.expert_parameters, 2 * expert, 0);
    assert_near(w.parameters, attention + router + 2 * 64, 0);
    assert_near(w.flops[W], 2 * tokens * (attention + router + 2 * expert), 0);
    for (int op = F; op <= I; op++) {
        assert_near(w.traffic[SL_WORK_EXPERT][op].steps, 2, 0);
        assert_near(w.traffic[SL_WORK_EXPERT][op].bytes, 2 * 0.75 * 2 * tokens * 2 * 64, 0);
        assert_near(dense.traffic[SL_WORK_EXPERT][op].bytes, 0, 0);
    }
    assert_near(dense.expert_parameters, 0, 0);
    assert_near(dense.flops[W], 2 * tokens * (attention + 3 * 64 * 256), 0);
    /* kept beyond attention (2 bytes * 6 * 64 and 4 bytes per head): norm's input and output, both sides of
     * the experts, three hidden vectors of 128 for each of two experts, 8 f32 of the router */
    double kept = tokens * (2 * 6 * 64 + 4 * 4 + 2 * (2 * 64 + 2 * 2 * 64 + 2 * 3 * 128) + 4 * 8);
    assert_near(w.kept, kept, 0);
    sl_model_work_free(&model);
}

/* DeepSeek-V3 activates 37 billion of 671 billion parameters (DeepSeek-AI 2024): F of a token takes twice as
 * many operations, without attention's inner products and without the embedding's 129280 * 7168 rows. */
static void deepseek_v3_activates_37_billion_parameters(void **state) {
    (void)state;
    sl_model_work model;
    double flops = 0;
    make_model("model: {layers: 61, width: 7168, heads: 128, head_width: 128, hidden: 18432, gated: true, "
               "vocabulary: 129280, context: 4096, experts: 256, experts_per_token: 8, expert_hidden: 2048, "
               "shared_experts: 1, dense_layers: 3, query_rank: 1536, kv_rank: 512, rope_width: 64}\n"
               "batch: {sequences: 1}\n",
               &model);
    sl_division d = whole(1);
    for (int i = 0; i < model.layers; i++)
        flops += work_of(&model, i, &d).flops[W];
    assert_near((flops / 2 / 4096 + 129280 * 7168.0) / 1e9, 37, 0.7);
    sl_model_work_free(&model);
}

/* ---- measured layers ---- */

static void measured_layers_scale_with_size_and_tensor_ranks(void **state) {
    (void)state;
    sl_model_work model;
    make_model("layers: [{name: a, times_ms: {F: 1, I: 2, W: 3}, activations_mb: 40, kept_for_w_mb: 30, "
               "input_mb: 4, output_mb: 8, parameters_m: 12}]\nmeasured: {tensor: 2, size: 2}\n"
               "batch: {sequences: 1}\n",
               &model);
    sl_division d = whole(6);
    d.tensor = 2;
    sl_layer_work w = work_of(&model, 0, &d);
    assert_near(w.seconds[I], 0.006, 1e-15);
    assert_near(w.kept, 120e6, 0);
    assert_near(w.output, 24e6, 0);
    assert_near(w.parameters, 6e6, 0);
    d.recompute = SL_RECOMPUTE_ALL;
    w = work_of(&model, 0, &d);
    assert_near(w.kept, 12e6, 0);
    assert_near(w.gradients, 120e6, 0);
    assert_near(w.again, 1, 0);
    d.recompute = SL_RECOMPUTE_ATTENTION;
    assert_fails(sl_division_check(&model, &d), SL_EINVAL, "");
    d.recompute = SL_KEEP_ALL;
    d.tensor = 4;
    assert_fails(sl_division_check(&model, &d), SL_EINVAL, "4 2 'scaling: ideal'");
    model.scales = 1;
    w = work_of(&model, 0, &d);
    assert_near(w.seconds[I], 0.003, 1e-15);
    assert_near(w.kept, 60e6, 0);
    assert_near(w.output, 24e6, 0);
    d.context = 2;
    assert_fails(sl_division_check(&model, &d), SL_EINVAL, "");
    sl_model_work_free(&model);
}

/* ---- divisions ---- */

static void impossible_divisions_are_refused_with_the_reason(void **state) {
    (void)state;
    sl_model_work model, full;
    make_model(
        "model: {layers: 1, width: 64, heads: 12, kv_heads: 4, head_width: 8, hidden: 96, gated: true, "
        "vocabulary: 10, context: 36}\nbatch: {sequences: 1}\n",
        &model);
    make_gpt(1, 64, 4, 32, 100, &full);
    const struct {
        sl_division division;
        const sl_model_work *model;
        const char *says;
    } wrong[] = {
        {{.tensor = 0, .context = 1, .expert = 1, .size = 1}, &model, "tensor 0"},
        {{.tensor = 1, .context = 1, .expert = 1, .size = 0}, &model, "size 0"},
        {{.tensor = 5, .context = 1, .expert = 1, .size = 1}, &model, "5 12 heads"},
        {{.tensor = 12, .context = 1, .expert = 1, .size = 1}, &model, "12 4 of keys"},
        {{.tensor = 1, .context = 4, .expert = 1, .size = 1}, &model, "4 context ranks 36 tokens"},
        {{.tensor = 4, .context = 2, .expert = 1, .size = 1, .sequence_parallel = 1}, &model, "4 18 tokens"},
        {{.tensor = 1, .context = 1, .expert = 2, .size = 1}, &model, "2 expert ranks"},
        {{.tensor = 1, .context = 2, .expert = 1, .size = 1}, &full, "2 flash"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(sl_division_check(wrong[i].model, &wrong[i].division), SL_EINVAL, wrong[i].says);
    sl_model_work_free(&model);
    sl_model_work_free(&full);
    make_model(EXPERTS, &model);
    sl_division d = whole(1);
    d.expert = 3;
    assert_fails(sl_division_check(&model, &d), SL_EINVAL, "3 expert ranks 8 experts");
    sl_model_work_free(&model);
}

/* Weights are read in F and I, gradients are read and written in W; each kept byte is written and read. */
static void memory_moves_weights_and_activations(void **state) {
    (void)state;
    sl_model_work model;
    make_gpt(1, 64, 4, 64, 100, &model);
    sl_division d = whole(1);
    sl_layer_work w = work_of(&model, 1, &d);
    double parameters = 12 * 64 * 64 + 13 * 64, kept = 64 * 64 * (34 + 5.0 * 4 * 64 / 64);
    assert_near(w.parameters, parameters, 0);
    assert_near(w.moved[F], 2 * parameters + 2 * kept, 0);
    assert_near(w.moved[I], 2 * parameters + 3 * kept, 0);
    assert_near(w.moved[W], 2 * 4 * parameters + 32 * 64 * 64, 0);
    /* the largest part of the gradients is the attention's: its input, queries, keys, values, result, and two
     * matrices; and those of input and output */
    assert_near(w.gradients, 2 * 64 * 64 * 2 + 2 * 64 * 64 * 5 + 2 * 2 * 4 * 64 * 64, 0);
    sl_model_work_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_iteration_has_the_flops_of_narayanan),
        cmocka_unit_test(the_backward_is_divided_into_input_and_weights),
        cmocka_unit_test(grouped_heads_and_gated_mlps_are_counted),
        cmocka_unit_test(a_layer_keeps_the_activations_of_korthikanti),
        cmocka_unit_test(selective_recomputation_saves_what_the_paper_says),
        cmocka_unit_test(the_head_keeps_norm_input_and_logits),
        cmocka_unit_test(w_needs_inputs_and_gradients_of_products),
        cmocka_unit_test(flash_keeps_a_number_per_token_and_head),
        cmocka_unit_test(tensor_ranks_add_up_twice_in_each_direction),
        cmocka_unit_test(context_ranks_pass_keys_and_values_around),
        cmocka_unit_test(tokens_pass_to_experts_and_back),
        cmocka_unit_test(deepseek_v3_activates_37_billion_parameters),
        cmocka_unit_test(measured_layers_scale_with_size_and_tensor_ranks),
        cmocka_unit_test(impossible_divisions_are_refused_with_the_reason),
        cmocka_unit_test(memory_moves_weights_and_activations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
