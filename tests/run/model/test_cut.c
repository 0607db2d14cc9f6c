/* Which blocks make which stage: by cost, with embedding and head counted as layers, or as the file says. */
#include "run/model/trial.h"

enum { MAX_STAGES = 6 };

static void expect_cut(const sl_model_config *c, int stages, const int *blocks) {
    int first, end, at = 0;
    for (int s = 0; s < stages; s++) {
        sl_model_cut(c, s, stages, &first, &end);
        assert_int_equal(first, at);
        assert_int_equal(end - first, blocks[s]);
        at = end;
    }
    assert_int_equal(at, c->layers);
}

/* GPT-2's smallest model, by hand: a block has 12 * 768^2 weights, two operations each, and attends to 1024 /
 * 2 rows twice, two operations each: 15,728,640. The head has 50257 * 768 weights: 77,194,752, so 4.908
 * blocks. Four stages: the last one has its one block and the head (5.908), the others 4, 4 and 3, the first
 * of them the fewest, as it has the embedding. Two stages: 8 and 4 + 4.908 = 8.908; 9 and 7.908 would cost 9.
 */
static void the_head_of_gpt2_counts_as_five_blocks(void **state) {
    (void)state;
    sl_model_config c = {
        .layers = 12, .width = 768, .heads = 12, .context = 1024, .vocabulary = 50257, .batch = 1};
    assert_int_equal(sl_model_block_cost(&c), 15728640);
    assert_int_equal(sl_model_head_cost(&c), 77194752);
    const int four[] = {3, 4, 4, 1}, two[] = {8, 4}, even[] = {3, 3, 3, 3};
    expect_cut(&c, 4, four);
    expect_cut(&c, 2, two);
    c.vocabulary = 256;
    expect_cut(&c, 4, even);
}

/* Llama of width 96 with 6 heads, 2 of keys and values, and an MLP of 256: q and o 96 * 96, k and v 32 * 96,
 * three matrices of 256 * 96: 98,304 weights; 64 / 2 rows, twice, 96 wide. */
static void a_block_of_llama_costs_what_its_matrices_do(void **state) {
    (void)state;
    sl_model_config c = {.kind = SL_MODEL_LLAMA,
                         .layers = 2,
                         .width = 96,
                         .heads = 6,
                         .kv_heads = 2,
                         .context = 64,
                         .vocabulary = 100,
                         .batch = 1};
    assert_int_equal(sl_model_block_cost(&c), 2 * 98304 + 2 * 64 * 96);
    assert_int_equal(sl_model_count(&c), 2 * 100 * 96 + 2 * (98304 + 2 * 96) + 96);
    c.tied = 1;
    assert_int_equal(sl_model_count(&c), 100 * 96 + 2 * (98304 + 2 * 96) + 96);
}

static int64_t largest(const sl_model_config *c, int stages, const int *blocks) {
    int64_t most = 0;
    for (int s = 0; s < stages; s++) {
        int64_t cost = blocks[s] * sl_model_block_cost(c) + (s == 0 ? sl_model_embedding_cost(c) : 0) +
                       (s == stages - 1 ? sl_model_head_cost(c) : 0);
        most = cost > most ? cost : most;
    }
    return most;
}

/* The cheapest of all cuts of the layers that are left. */
static int64_t cheapest(const sl_model_config *c, int stages, int stage, int left, int *blocks) {
    int64_t best = INT64_MAX;
    if (stage == stages - 1) {
        blocks[stage] = left;
        return largest(c, stages, blocks);
    }
    for (int here = 1; here <= left - (stages - 1 - stage); here++) {
        blocks[stage] = here;
        int64_t cost = cheapest(c, stages, stage + 1, left - here, blocks);
        best = cost < best ? cost : best;
    }
    return best;
}

static void no_cut_has_a_cheaper_largest_stage(void **state) {
    (void)state;
    uint64_t seed = trial_seed();
    for (int i = 0; i < 300; i++) {
        sl_model_config c = {.kind = (sl_model_kind)(trial_random(&seed) % 2),
                             .layers = 1 + (int)(trial_random(&seed) % 10),
                             .width = 8 * (1 + (int)(trial_random(&seed) % 8)),
                             .heads = 2,
                             .context = 1 + (int)(trial_random(&seed) % 200),
                             .vocabulary = 1 + (int)(trial_random(&seed) % 4000),
                             .batch = 1};
        int stages = 1 + (int)(trial_random(&seed) % MAX_STAGES), ours[MAX_STAGES], any[MAX_STAGES];
        stages = stages < c.layers ? stages : c.layers;
        for (int s = 0; s < stages; s++) {
            int first, end;
            sl_model_cut(&c, s, stages, &first, &end);
            ours[s] = end - first;
            assert_true(ours[s] >= 1);
        }
        assert_true(largest(&c, stages, ours) == cheapest(&c, stages, 0, c.layers, any));
    }
}

static double loss_of_cut(const int *cut, uint64_t seed, float *gradient) {
    const sl_model_config c = {
        .layers = 6, .width = 32, .heads = 2, .context = 16, .vocabulary = 64, .batch = 2, .cut = cut};
    trial t;
    trial_open(&t, &c, 3, 2, seed);
    double loss = trial_iterate(&t, TRIAL_OVERLAP);
    memcpy(gradient, sl_model_embedding(t.stage[0])->gradient, 64 * 32 * sizeof *gradient);
    trial_close(&t);
    return loss;
}

static void a_stated_cut_is_kept_and_changes_no_bit(void **state) {
    (void)state;
    const int cut[] = {1, 4, 1}, other[] = {3, 1, 2};
    const sl_model_config c = {
        .layers = 6, .width = 32, .heads = 2, .context = 16, .vocabulary = 64, .batch = 2, .cut = cut};
    float gradient[3][64 * 32];
    uint64_t seed = trial_seed();
    expect_cut(&c, 3, cut);
    double loss = loss_of_cut(NULL, seed, gradient[0]);
    assert_true(loss_of_cut(cut, seed, gradient[1]) == loss);
    assert_true(loss_of_cut(other, seed, gradient[2]) == loss);
    assert_memory_equal(gradient[0], gradient[1], sizeof gradient[0]);
    assert_memory_equal(gradient[0], gradient[2], sizeof gradient[0]);
}

static void a_cut_that_does_not_fit_is_refused(void **state) {
    (void)state;
    const int short_one[] = {2, 2, 1}, empty[] = {3, 0, 3};
    sl_model_config c = {
        .layers = 6, .width = 32, .heads = 2, .context = 16, .vocabulary = 64, .batch = 2, .cut = short_one};
    assert_fails(sl_model_check(&c, 3), SL_EINVAL, "'parallel.cut' has 5 blocks, 'model.layers' is 6");
    c.cut = empty;
    assert_fails(sl_model_check(&c, 3), SL_EINVAL, "gives stage 1 0 blocks");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_head_of_gpt2_counts_as_five_blocks),
        cmocka_unit_test(a_block_of_llama_costs_what_its_matrices_do),
        cmocka_unit_test(no_cut_has_a_cheaper_largest_stage),
        cmocka_unit_test(a_stated_cut_is_kept_and_changes_no_bit),
        cmocka_unit_test(a_cut_that_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
