/* A stage keeps exactly what it says, refuses ops out of turn, and its memory is a hard limit. */
#include "run/model/trial.h"

#include "base/memory.h"

static const sl_model_config shape = {
    .layers = 4, .width = 32, .heads = 2, .context = 16, .vocabulary = 256, .batch = 2};

static void impossible_shapes_are_refused_by_name(void **state) {
    (void)state;
    sl_model_config c = shape;
    assert_ok(sl_model_check(&c, 4));
    assert_fails(sl_model_check(&c, 5), SL_EINVAL, "model.layers");
    assert_fails(sl_model_check(&c, 0), SL_EINVAL, "stages");
    c.heads = 5;
    assert_fails(sl_model_check(&c, 1), SL_EINVAL, "model.heads");
    c = shape;
    c.vocabulary = 65537;
    assert_fails(sl_model_check(&c, 1), SL_EINVAL, "65537");
    c = shape;
    c.context = 0;
    assert_fails(sl_model_check(&c, 1), SL_EINVAL, "model.context");
    c.context = 1 << 30;
    c.batch = 4;
    assert_fails(sl_model_check(&c, 1), SL_EINVAL, "too large");
}

/* GPT-2's smallest model has 124,439,808 weights with 50,257 tokens and 1,024 positions (Hugging Face); ours
 * has 256 tokens: 50,001 * 768 fewer. */
static void the_model_has_as_many_weights_as_gpt2(void **state) {
    (void)state;
    sl_model_config c = {
        .layers = 12, .width = 768, .heads = 12, .context = 1024, .vocabulary = 256, .batch = 1};
    assert_int_equal(sl_model_count(&c), 124439808u - 50001u * 768u);
}

static void count_one(sl_parameter *p, void *total) {
    *(size_t *)total += p->count;
}

static void stages_hold_every_block_once(void **state) {
    (void)state;
    for (int stages = 1; stages <= 3; stages++) {
        sl_model_config c = shape;
        c.layers = 7;
        int first, end, before = 0;
        for (int s = 0; s < stages; s++) {
            sl_model_cut(&c, s, stages, &first, &end);
            assert_int_equal(first, before);
            assert_true(end - first == 7 / stages || end - first == 7 / stages + 1);
            before = end;
        }
        assert_int_equal(before, 7);
        trial t;
        size_t total = 0;
        trial_open(&t, &c, stages, 1, 1);
        trial_each(&t, count_one, &total);
        assert_int_equal(total, sl_model_count(&c));
        trial_close(&t);
    }
}

static void memory_follows_f_i_and_w(void **state) {
    (void)state;
    trial t;
    trial_open(&t, &shape, 2, 3, 1);
    for (int s = 0; s < 2; s++) {
        sl_model_bytes b;
        assert_ok(sl_model_measure(&shape, t.device, s, 2, &b));
        assert_int_equal(sl_arena_in_use(t.arena[s]), b.fixed);
        assert_ok(sl_model_begin(t.stage[s], 3));
    }
    sl_model_bytes b;
    assert_ok(sl_model_measure(&shape, t.device, 0, 2, &b));
    trial_forward(&t, 0);
    trial_forward(&t, 1);
    assert_int_equal(sl_arena_in_use(t.arena[0]), b.fixed + 2 * b.forward);
    trial_input_grad(&t, 1);
    assert_int_equal(sl_arena_in_use(t.arena[0]), b.fixed + 2 * b.forward + b.backward);
    trial_input_grad(&t, 0);
    trial_weight_grad(&t, 0);
    assert_int_equal(sl_arena_in_use(t.arena[0]), b.fixed + b.forward + b.backward);
    trial_weight_grad(&t, 1);
    assert_int_equal(sl_arena_in_use(t.arena[0]), b.fixed);
    /* what was cut short is given back at the next begin */
    trial_forward(&t, 2);
    assert_ok(sl_model_begin(t.stage[0], 3));
    assert_int_equal(sl_arena_in_use(t.arena[0]), b.fixed);
    trial_close(&t);
}

/* By hand, two blocks of the first of two stages: n = 32 rows, w = 32. F keeps 10 n w + 2 n floats a block,
 * n for each of the 2 heads (attention's normaliser) and n token ids of 2 bytes; I adds 8 n w a block and n w
 * for the embedding. */
static void kept_bytes_are_those_of_the_formula(void **state) {
    (void)state;
    sl_device *device;
    sl_model_bytes b;
    assert_ok(sl_device_open_cpu(1, &device));
    assert_ok(sl_model_measure(&shape, device, 0, 2, &b));
    assert_int_equal(b.forward, 4 * 2 * (10 * 32 * 32 + 2 * 32 + 2 * 32) + 64);
    assert_int_equal(b.backward, 4 * (2 * 8 * 32 * 32 + 32 * 32));
    assert_int_equal(b.message, 4 * 32 * 32);
    device->close(device);
}

static void the_limit_is_hard_and_says_so(void **state) {
    (void)state;
    sl_device *device;
    sl_arena *arena;
    sl_model_stage *stage;
    sl_model_bytes b;
    uint16_t text[32] = {0};
    assert_ok(sl_device_open_cpu(1, &device));
    assert_ok(sl_model_measure(&shape, device, 0, 1, &b));
    assert_ok(sl_arena_open(NULL, b.fixed - 64, &arena));
    assert_fails(sl_model_stage_open(&shape, device, arena, 0, 1, 1, &stage), SL_ENOMEM, "device memory");
    assert_int_equal(sl_arena_in_use(arena), 0);
    sl_arena_close(arena);
    assert_ok(sl_arena_open(NULL, b.fixed + b.forward, &arena));
    assert_ok(sl_model_stage_open(&shape, device, arena, 0, 1, 1, &stage));
    assert_ok(sl_model_begin(stage, 2));
    assert_ok(sl_model_forward(stage, 0, text, text, NULL, NULL));
    assert_fails(sl_model_forward(stage, 1, text, text, NULL, NULL), SL_ENOMEM, "F of a microbatch");
    assert_fails(sl_model_input_grad(stage, 0, NULL, NULL), SL_ENOMEM, "I of a microbatch");
    sl_model_stage_close(stage);
    assert_int_equal(sl_arena_in_use(arena), 0);
    sl_arena_close(arena);
    device->close(device);
}

static void every_failing_allocation_leaves_nothing_behind(void **state) {
    (void)state;
    sl_device *device;
    sl_arena *arena;
    sl_model_stage *stage = NULL;
    sl_status status = SL_ENOMEM;
    int failures = 0;
    for (; status != SL_OK; failures++) {
        assert_ok(sl_device_open_cpu(1, &device));
        assert_ok(sl_arena_open(NULL, 4 << 20, &arena));
        sl_alloc_fail_at(failures);
        status = sl_model_stage_open(&shape, device, arena, 1, 2, 1, &stage);
        sl_alloc_fail_at(-1);
        if (status != SL_OK)
            assert_int_equal(status, SL_ENOMEM);
        else
            sl_model_stage_close(stage);
        assert_int_equal(sl_arena_in_use(arena), 0);
        sl_arena_close(arena);
        device->close(device);
    }
    assert_true(failures > 15); /* the stage, its 15 products, lists */
}

static void ops_out_of_turn_are_refused(void **state) {
    (void)state;
    trial t;
    trial_open(&t, &shape, 1, 2, 1);
    sl_model_stage *s = t.stage[0];
    assert_ok(sl_model_begin(s, 2));
    assert_true(isnan(sl_model_loss(s, 0)));
    assert_fails(sl_model_input_grad(s, 0, NULL, NULL), SL_EINVAL, "out of turn");
    trial_forward(&t, 0);
    trial_forward(&t, 1);
    assert_fails(sl_model_forward(s, 0, t.tokens, t.targets, NULL, NULL), SL_EINVAL, "out of turn");
    assert_fails(sl_model_forward(s, 2, t.tokens, t.targets, NULL, NULL), SL_EINVAL, "has 2");
    assert_fails(sl_model_weight_grad(s, 0), SL_EINVAL, "out of turn");
    trial_input_grad(&t, 1);
    assert_fails(sl_model_weight_grad(s, 1), SL_EINVAL, "before that of 0");
    trial_input_grad(&t, 0);
    trial_weight_grad(&t, 0);
    trial_weight_grad(&t, 1);
    assert_fails(sl_model_weight_grad(s, 1), SL_EINVAL, "out of turn");
    assert_fails(sl_model_forward(s, 0, NULL, NULL, NULL, NULL), SL_EINVAL, "out of turn");
    assert_ok(sl_model_begin(s, 2));
    assert_fails(sl_model_forward(s, 0, t.tokens, NULL, NULL, NULL), SL_EINVAL, "buffer");
    trial_close(&t);
}

/* Another order of the same requests moves every block, and changes nothing. */
static void addresses_change_no_bit(void **state) {
    (void)state;
    const int order[2][3] = {{0, 1, 2}, {2, 0, 1}};
    float *gradient[2];
    size_t count = 0;
    for (int way = 0; way < 2; way++) {
        trial t;
        trial_open(&t, &shape, 1, 3, 5);
        void *gap;
        sl_model_stage_close(t.stage[0]); /* into a larger arena, so that the gap costs no room */
        sl_arena_close(t.arena[0]);
        assert_ok(sl_arena_open(NULL, 8 << 20, &t.arena[0]));
        assert_ok(sl_model_stage_open(&shape, t.device, t.arena[0], 0, 1, 5, &t.stage[0]));
        assert_ok(sl_arena_take(t.arena[0], 64 * (size_t)(1 + 6 * way), SL_ARENA_LOW, "a gap", &gap));
        assert_ok(sl_model_begin(t.stage[0], 3));
        for (int i = 0; i < 2; i++)
            trial_forward(&t, order[way][i]);
        sl_arena_give(t.arena[0], gap);
        trial_forward(&t, order[way][2]);
        for (int i = 0; i < 3; i++)
            trial_input_grad(&t, order[1 - way][i]);
        for (int m = 0; m < 3; m++)
            trial_weight_grad(&t, m);
        int parameters;
        sl_parameter *p = sl_model_parameters(t.stage[0], &parameters);
        assert_string_equal(p[2 + 2].name, "h.0.attn.c_attn.weight");
        count = p[2 + 2].count;
        gradient[way] = malloc(count * sizeof(float));
        memcpy(gradient[way], p[2 + 2].gradient, count * sizeof(float));
        trial_close(&t);
    }
    assert_memory_equal(gradient[0], gradient[1], count * sizeof(float));
    free(gradient[0]);
    free(gradient[1]);
}

/* N(0, 0.02) as GPT-2's: with 24,576 draws the mean of squares has a relative deviation of sqrt(2 / n) = 0.9
 * %. */
static void initial_weights_have_the_given_deviation_and_follow_the_seed(void **state) {
    (void)state;
    float a[24576], b[24576];
    const sl_model_config c = {
        .layers = 8, .width = 64, .heads = 2, .context = 4, .vocabulary = 4, .batch = 1};
    sl_parameter list[2 + 8 * 12 + 2], p;
    assert_int_equal(sl_model_list(&c, 0, 1, list), 2 + 8 * 12 + 2);
    p = list[2 + 3 * 12 + 10];
    assert_int_equal(p.count, 4 * 64 * 64);
    assert_string_equal(p.name, "h.3.mlp.c_proj.weight");
    p.count = 24576;
    p.axis = SL_AXIS_NONE; /* as one run of so many elements */
    p.weight = a;
    sl_parameter_initialise(&p, 1, 8);
    double squares = 0, sum = 0;
    for (size_t i = 0; i < p.count; i++) {
        squares += (double)a[i] * (double)a[i];
        sum += (double)a[i];
    }
    double deviation = 0.02 / 4; /* sqrt(2 * 8) */
    assert_true(fabs(sqrt(squares / 24576) / deviation - 1) < 0.02);
    assert_true(fabs(sum / 24576) < 4 * deviation / sqrt(24576));
    p.weight = b;
    sl_parameter_initialise(&p, 1, 8);
    assert_memory_equal(a, b, sizeof a);
    sl_parameter_initialise(&p, 2, 8);
    assert_memory_not_equal(a, b, sizeof a);
    p.name[2] = '4';
    sl_parameter_initialise(&p, 1, 8);
    assert_memory_not_equal(a, b, sizeof a);
}

/* F in 4 parts, the last two after I of another microbatch has used the scratch; W behind I part by part. */
static void parts_come_in_turn_and_need_what_they_need(void **state) {
    (void)state;
    trial t;
    trial_open(&t, &shape, 1, 2, 1);
    sl_model_stage *s = t.stage[0];
    size_t second = (size_t)shape.batch * (size_t)shape.context;
    assert_ok(sl_model_begin(s, 2));
    assert_fails(sl_model_forward_part(s, 0, (sl_op_part){1, 4}, t.tokens, t.targets, NULL, NULL), SL_EINVAL,
                 "F of microbatch 0 is out of turn");
    assert_fails(sl_model_forward_part(s, 0, (sl_op_part){4, 4}, t.tokens, t.targets, NULL, NULL), SL_EINVAL,
                 "part 4 of 4");
    assert_ok(
        sl_model_forward_part(s, 0, (sl_op_part){0, 4}, t.tokens, NULL, NULL, NULL)); /* no targets yet */
    assert_ok(sl_model_forward_part(s, 0, (sl_op_part){1, 4}, NULL, NULL, NULL, NULL));
    assert_fails(sl_model_forward_part(s, 0, (sl_op_part){2, 5}, NULL, NULL, NULL, NULL), SL_EINVAL,
                 "out of turn"); /* cut in another way */
    assert_fails(sl_model_input_grad_part(s, 0, (sl_op_part){0, 4}, NULL, NULL), SL_EINVAL, "out of turn");
    assert_ok(sl_model_forward(s, 1, t.tokens + second, t.targets + second, NULL, NULL));
    assert_ok(sl_model_input_grad(s, 1, NULL, NULL));
    assert_ok(sl_model_forward_part(s, 0, (sl_op_part){2, 4}, NULL, NULL, NULL, NULL));
    assert_fails(sl_model_forward_part(s, 0, (sl_op_part){3, 4}, NULL, NULL, NULL, NULL), SL_EINVAL,
                 "a buffer is missing"); /* the loss needs targets */
    assert_ok(sl_model_forward_part(s, 0, (sl_op_part){3, 4}, NULL, t.targets, NULL, NULL));
    double loss = sl_model_loss(s, 0);
    assert_ok(sl_model_input_grad_part(s, 0, (sl_op_part){0, 4}, NULL, NULL));
    assert_ok(sl_model_weight_grad_part(s, 0, (sl_op_part){0, 4}));
    assert_fails(sl_model_weight_grad_part(s, 0, (sl_op_part){1, 4}), SL_EINVAL, "out of turn");
    for (int part = 1; part < 4; part++) {
        assert_ok(sl_model_input_grad_part(s, 0, (sl_op_part){part, 4}, NULL, NULL));
        assert_ok(sl_model_weight_grad_part(s, 0, (sl_op_part){part, 4}));
    }
    assert_ok(sl_model_weight_grad(s, 1));
    assert_ok(sl_model_begin(s, 2)); /* the same microbatch whole */
    assert_ok(sl_model_forward(s, 0, t.tokens, t.targets, NULL, NULL));
    assert_true(sl_model_loss(s, 0) == loss);
    trial_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_shapes_are_refused_by_name),
        cmocka_unit_test(the_model_has_as_many_weights_as_gpt2),
        cmocka_unit_test(stages_hold_every_block_once),
        cmocka_unit_test(memory_follows_f_i_and_w),
        cmocka_unit_test(kept_bytes_are_those_of_the_formula),
        cmocka_unit_test(the_limit_is_hard_and_says_so),
        cmocka_unit_test(every_failing_allocation_leaves_nothing_behind),
        cmocka_unit_test(ops_out_of_turn_are_refused),
        cmocka_unit_test(addresses_change_no_bit),
        cmocka_unit_test(initial_weights_have_the_given_deviation_and_follow_the_seed),
        cmocka_unit_test(parts_come_in_turn_and_need_what_they_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
