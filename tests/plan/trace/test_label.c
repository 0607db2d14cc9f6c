/* What names of events mean, by the known patterns and by those given by the user. */
#include "check.h"

#include "plan/trace/label.h"

static const sl_label_map none;

static void expect_op(const sl_label_map *map, const char *name, int kind, int stage, int microbatch) {
    sl_label label = sl_label_read(map, name);
    if (label.kind != SL_LABEL_OP || label.op.kind != kind || label.op.stage != stage ||
        label.op.microbatch != microbatch)
        fail_msg("'%s' is kind %d, op %d, stage %d, microbatch %d", name, label.kind, label.op.kind,
                 label.op.stage, label.op.microbatch);
}

static void expect_nothing(const sl_label_map *map, const char *name) {
    if (sl_label_read(map, name).kind != SL_LABEL_NONE)
        fail_msg("'%s' means something", name);
}

static void actions_of_pytorch_are_known(void **unused) {
    (void)unused;
    expect_op(&none, "PP:0F7", SL_F, 0, 7);
    expect_op(&none, "12B305", SL_B, 12, 305);
    expect_op(&none, "PP:3I0", SL_I, 3, 0);
    expect_op(&none, "PP:3W1", SL_W, 3, 1);
    sl_label pair = sl_label_read(&none, "PP:(0F7;7B3)OVERLAP_F_B");
    assert_int_equal(pair.kind, SL_LABEL_PAIR);
    assert_true(pair.op.stage == 0 && pair.op.microbatch == 7 && pair.op.kind == SL_F);
    assert_true(pair.second.stage == 7 && pair.second.microbatch == 3 && pair.second.kind == SL_B);
    sl_label send = sl_label_read(&none, "PP:1SEND_B3"), receive = sl_label_read(&none, "PP:2RECV_F4");
    assert_true(send.kind == SL_LABEL_SEND && send.op.kind == SL_B && send.op.stage == 1 &&
                send.op.microbatch == 3);
    assert_true(receive.kind == SL_LABEL_RECEIVE && receive.op.kind == SL_F && receive.op.stage == 2);
    sl_label reduce = sl_label_read(&none, "PP:1REDUCE_GRAD");
    assert_true(reduce.kind == SL_LABEL_COLLECTIVE && reduce.op.kind == SL_REDUCE && reduce.op.stage == 1);
    expect_op(&none, "Forward 3", SL_F, -1, 3);
    expect_op(&none, "Backward 0", SL_B, -1, 0);
    sl_label step = sl_label_read(&none, "ProfilerStep#17");
    assert_true(step.kind == SL_LABEL_ITERATION && step.iteration == 17);
}

static void steps_of_megatron_and_slackline_are_known(void **unused) {
    (void)unused;
    expect_op(&none, "forward_step", SL_F, -1, -1);
    expect_op(&none, "megatron.core.pipeline_parallel.schedules.backward_step", SL_B, -1, -1);
    expect_op(&none, "megatron/core/pipeline_parallel/schedules.py(205): forward_step", SL_F, -1, -1);
    expect_op(&none, "W11", SL_W, -1, 11);
}

/* With seven stars a search of all their places would take years for this name. */
static void stars_take_what_leaves_most_to_the_rest(void **unused) {
    (void)unused;
    sl_label_map map = {0};
    char name[5001];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_ok(sl_label_map_add(&map, "F=*a*a*a*a*a*a*b{mb}"));
    assert_ok(sl_label_map_add(&map, "B=*mb {mb}*of stage {stage}*"));
    assert_ok(sl_label_map_add(&map, "W=*{mb}"));
    expect_nothing(&map, name);
    memcpy(name + sizeof name - 4, "b42", 4);
    expect_op(&map, name, SL_F, -1, 42);
    expect_op(&map, "mb x mb 3 mb 4 of stage of stage 5 done", SL_B, 5, 3);
    expect_op(&map, "mb 3of stage 5", SL_B, 5, 3);
    expect_op(&map, "12b3", SL_W, -1, 3);
    expect_op(&map, "of stage 5 mb 3", SL_W, -1, 3); /* no B: its words stand in another order */
}

static void other_names_mean_nothing(void **unused) {
    (void)unused;
    static const char *const others[] = {"",
                                         "F",
                                         "0F",
                                         "PP:0F7 ",
                                         "PP:0G7",
                                         "Forward",
                                         "Forward x",
                                         "aten::mm",
                                         "0F7;1B2",
                                         "(0F7;7B3)",
                                         "(0B7;7F3)OVERLAP_F_B",
                                         "PP:0UNSHARD",
                                         "xF3",
                                         "forward_step_calc"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        expect_nothing(&none, others[i]);
}

static void given_patterns_stand_instead_of_the_known_ones(void **unused) {
    (void)unused;
    sl_label_map map = {0};
    assert_ok(sl_label_map_add(&map, "F=fwd stage {stage} mb {microbatch}"));
    assert_ok(sl_label_map_add(&map, "B=*bwd*_{mb}"));
    expect_op(&map, "fwd stage 2 mb 13", SL_F, 2, 13);
    expect_op(&map, "my bwd of x_5", SL_B, -1, 5);
    expect_nothing(&map, "fwd stage 2 mb 13 again");
    expect_nothing(&map, "PP:0F7"); /* a known pattern of ops */
    assert_int_equal(sl_label_read(&map, "PP:1SEND_B3").kind, SL_LABEL_SEND);
    assert_int_equal(sl_label_read(&map, "ProfilerStep#1").iteration, 1);
    sl_label_map steps = {0};
    assert_ok(sl_label_map_add(&steps, "iteration=train step {iteration}"));
    assert_int_equal(sl_label_read(&steps, "train step 4").iteration, 4);
    expect_nothing(&steps, "ProfilerStep#1");
    expect_op(&steps, "PP:0F7", SL_F, 0, 7);
    sl_label_map wrapped = {0};
    assert_ok(sl_label_map_add(&wrapped, "action=run[{action}]"));
    expect_op(&wrapped, "run[4W2]", SL_W, 4, 2);
}

static void wrong_patterns_say_what_is_wrong(void **unused) {
    (void)unused;
    sl_label_map map = {0};
    assert_fails(sl_label_map_add(&map, "F"), SL_EINVAL, "WHAT=PATTERN");
    assert_fails(sl_label_map_add(&map, "F="), SL_EINVAL, "WHAT=PATTERN");
    assert_fails(sl_label_map_add(&map, "G=x"), SL_EINVAL, "WHAT=PATTERN");
    assert_fails(sl_label_map_add(&map, "F=x {rank}"), SL_EINVAL, "{rank}");
    assert_fails(sl_label_map_add(&map, "F=x {action}"), SL_EINVAL, "does not belong to 'F'");
    assert_fails(sl_label_map_add(&map, "action=x"), SL_EINVAL, "needs {action}");
    assert_int_equal(map.count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(actions_of_pytorch_are_known),
        cmocka_unit_test(steps_of_megatron_and_slackline_are_known),
        cmocka_unit_test(stars_take_what_leaves_most_to_the_rest),
        cmocka_unit_test(other_names_mean_nothing),
        cmocka_unit_test(given_patterns_stand_instead_of_the_known_ones),
        cmocka_unit_test(wrong_patterns_say_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
