/* Tensor ranks share a model: their slices are the model, their sums give its gradients, and there are no
 * more sums than Megatron's. */
#include "run/model/team.h"

/* 5 tokens more than ranks divide: slices of the vocabulary differ by one. */
static const sl_model_config gpt2 = {
    .layers = 3, .width = 32, .heads = 4, .context = 13, .vocabulary = 41, .batch = 2};
static const sl_model_config llama = {.kind = SL_MODEL_LLAMA,
                                      .layers = 3,
                                      .width = 48,
                                      .heads = 6,
                                      .kv_heads = 2,
                                      .hidden = 80,
                                      .context = 13,
                                      .vocabulary = 41,
                                      .batch = 2};

/* By hand: c_attn of width 4 has columns q0..q3 k0..k3 v0..v3; rank 1 of 2 has q2 q3 k2 k3 v2 v3. */
static void a_slice_has_its_share_of_every_piece(void **state) {
    (void)state;
    const sl_model_config c = {.layers = 1,
                               .width = 4,
                               .heads = 2,
                               .context = 2,
                               .vocabulary = 5,
                               .batch = 1,
                               .tensor = {1, 2, NULL, NULL, NULL}};
    sl_parameter list[16];
    assert_int_equal(sl_model_list(&c, 0, 1, list), 2 + 12 + 2);
    float full[48], slice[24], back[48];
    for (int i = 0; i < 48; i++) {
        full[i] = (float)i;
        back[i] = -1;
    }
    const sl_parameter *attn = &list[4], *bias = &list[5], *proj = &list[6], *wte = &list[0];
    assert_string_equal(attn->name, "h.0.attn.c_attn.weight");
    assert_int_equal(attn->rows, 4);
    assert_int_equal(attn->columns, 6);
    assert_int_equal(attn->count, 24);
    sl_parameter_cut(attn, full, slice);
    const float second_row[] = {12 + 2, 12 + 3, 12 + 6, 12 + 7, 12 + 10, 12 + 11};
    assert_memory_equal(slice + 6, second_row, sizeof second_row);
    sl_parameter_paste(attn, slice, back);
    for (int i = 0; i < 48; i++)
        assert_true(back[i] == (i % 4 >= 2 ? full[i] : -1));
    assert_int_equal(bias->columns, 6);
    sl_parameter_cut(bias, full, slice);
    const float of_bias[] = {2, 3, 6, 7, 10, 11};
    assert_memory_equal(slice, of_bias, sizeof of_bias);
    assert_int_equal(proj->rows, 2); /* rows 2 and 3 of 4 */
    sl_parameter_cut(proj, full, slice);
    assert_true(slice[0] == 8 && slice[7] == 15);
    /* 5 tokens: ranks have 2 and 3 */
    assert_int_equal(wte->rows, 3);
    sl_parameter_cut(wte, full, slice);
    assert_true(slice[0] == 8 && slice[11] == 19);
    sl_parameter other = sl_parameter_slice(wte, 0, 2);
    assert_int_equal(other.rows, 2);
    sl_parameter whole = sl_parameter_slice(attn, 0, 1);
    assert_int_equal(whole.count, sl_parameter_full_count(attn));
    assert_int_equal(sl_model_count(&c), 5 * 4 + 2 * 4 + (12 * 16 + 13 * 4) + 2 * 4);
}

static void body(member *m, void *context) {
    picture *p = context;
    trial_blur(&m->t, 99);
    p->loss[m->rank] = trial_iterate(&m->t, TRIAL_OVERLAP);
    picture_take(p, &m->t, m->rank);
}

static double distance(const float *a, const float *b, size_t count) {
    double apart = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)a[i] - (double)b[i];
        apart += d * d;
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(apart / norm);
}

static void compare(const sl_model_config *config, int ranks, int stages, uint64_t seed) {
    picture one, all;
    picture_open(&one, config);
    picture_open(&all, config);
    team_run(config, 1, stages, 3, seed, body, &one);
    team_run(config, ranks, stages, 3, seed, body, &all);
    picture_join(&all, ranks);
    assert_memory_equal(one.weight[0], all.weight[0], one.count * sizeof(float));
    double loss = fabs(all.loss[0] / one.loss[0] - 1),
           gradient = distance(all.gradient[0], one.gradient[0], one.count);
    print_message("%d ranks, %d stages: loss differs by %.1e, gradients by %.1e\n", ranks, stages, loss,
                  gradient);
    assert_true(loss < 1e-6 && gradient < 1e-5);
    picture_close(&one);
    picture_close(&all);
}

static void slices_have_the_weights_and_gradients_of_the_whole(void **state) {
    (void)state;
    uint64_t seed = trial_seed();
    for (int stages = 1; stages <= 3; stages += 2) {
        compare(&gpt2, 2, stages, seed);
        compare(&gpt2, 4, stages, seed);
        compare(&llama, 2, stages, seed);
        sl_model_config tied = llama;
        tied.tied = 1;
        compare(&tied, 2, stages, seed);
    }
}

/* F, I and W of one microbatch of three blocks on one stage. */
static void count_calls(member *m, void *context) {
    (void)context;
    const int blocks = m->t.config.layers;
    assert_ok(sl_model_begin(m->t.stage[0], 3));
    trial_forward(&m->t, 0);
    assert_int_equal(m->sums, 1 + 2 * blocks + 1); /* embedding, halves, loss */
    assert_int_equal(m->maxima, 1);
    trial_input_grad(&m->t, 0);
    assert_int_equal(m->sums, 1 + 2 * blocks + 1 + 1 + 2 * blocks); /* head, halves */
    trial_weight_grad(&m->t, 0);
    assert_int_equal(m->sums, 1 + 2 * blocks + 1 + 1 + 2 * blocks);
    assert_int_equal(m->maxima, 1);
}

static void there_is_one_sum_a_half_each_way_and_none_in_w(void **state) {
    (void)state;
    team_run(&gpt2, 2, 1, 3, 1, count_calls, NULL);
    team_run(&llama, 2, 1, 3, 1, count_calls, NULL);
}

static void recomputation_changes_no_bit_of_tensor_ranks(void **state) {
    (void)state;
    const int all[] = {1, 1, 1};
    sl_model_config c = llama;
    picture kept, again;
    picture_open(&kept, &c);
    picture_open(&again, &c);
    team_run(&c, 2, 3, 3, 5, body, &kept);
    c.recompute = all;
    team_run(&c, 2, 3, 3, 5, body, &again);
    for (int r = 0; r < 2; r++)
        assert_memory_equal(kept.gradient[r], again.gradient[r], kept.count * sizeof(float));
    assert_true(kept.loss[0] == again.loss[0]);
    picture_close(&kept);
    picture_close(&again);
}

static void what_cannot_be_divided_is_refused_by_name(void **state) {
    (void)state;
    sl_model_config c = llama;
    c.tensor.size = 3;
    assert_fails(sl_model_check(&c, 1), SL_EINVAL, "'model.kv_heads' of 2 cannot be divided over 3");
    c.kv_heads = 6;
    assert_fails(sl_model_check(&c, 1), SL_EINVAL, "'model.hidden' of 80 is not a multiple of 3");
    c = gpt2;
    c.tensor.size = 3;
    assert_fails(sl_model_check(&c, 1), SL_EINVAL, "'model.heads' of 4 is not a multiple of 3");
    c.tensor.size = 2;
    c.tensor.rank = 2;
    assert_fails(sl_model_check(&c, 1), SL_EINVAL, "tensor rank 2 of 2");
    c.tensor.rank = 0;
    c.vocabulary = 1;
    assert_fails(sl_model_check(&c, 1), SL_EINVAL, "model.vocabulary");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slice_has_its_share_of_every_piece),
        cmocka_unit_test(slices_have_the_weights_and_gradients_of_the_whole),
        cmocka_unit_test(there_is_one_sum_a_half_each_way_and_none_in_w),
        cmocka_unit_test(recomputation_changes_no_bit_of_tensor_ranks),
        cmocka_unit_test(what_cannot_be_divided_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
