/* Layouts of an elastic run: the expected ones follow from the numbers of slots by hand. */
#include "check.h"

#include "read_run.h"
#include "run/file/run_layout.h"

#define BASE(parallel)                                                                                       \
    "model: {layers: 8, width: 128, heads: 4, context: 64}\n"                                                \
    "data: {files: [\"a\"]}\n"                                                                               \
    "parallel: " parallel "\n"                                                                               \
    "batch: {microbatches: 7}\n"                                                                             \
    "iterations: 60\n"                                                                                       \
    "checkpoint: {every: 10}\n"
#define GRID BASE("{pipeline: 4, data: 3, tensor: 2}")

static void replicas_are_left_out_first_and_pipeline_ranks_then(void **state) {
    (void)state;
    /* a replica has 4 * 2 processes; a pipeline of 3 ranks 6, of 2 ranks 4, of 1 rank 2 */
    static const struct {
        int slots, data, pipeline;
    } expected[] = {{100, 3, 4}, {24, 3, 4}, {23, 2, 4}, {16, 2, 4}, {15, 1, 4}, {8, 1, 4},
                    {7, 1, 3},   {6, 1, 3},  {5, 1, 2},  {4, 1, 2},  {3, 1, 1},  {2, 1, 1}};
    sl_run run;
    sl_run_layout layout;
    assert_ok(read_run(GRID "elastic: true\n", &run));
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_ok(sl_run_layout_fit(&run, expected[i].slots, &layout));
        assert_int_equal(layout.data, expected[i].data);
        assert_int_equal(layout.pipeline, expected[i].pipeline);
    }
    assert_fails(sl_run_layout_fit(&run, 1, &layout), SL_ENONE,
                 "1 replica of 1 pipeline rank) needs 2 slots");
    sl_run_free(&run);
}

static void the_run_file_limits_the_layouts(void **state) {
    (void)state;
    sl_run run;
    sl_run_layout layout;
    assert_ok(read_run(GRID "elastic: {min_replicas: 2, min_pipeline: 3}\n", &run));
    assert_ok(sl_run_layout_fit(&run, 15, &layout));
    assert_true(layout.data == 2 && layout.pipeline == 3);
    assert_fails(sl_run_layout_fit(&run, 11, &layout), SL_ENONE, "2 replicas of 3 pipeline ranks) needs 12");
    sl_run_free(&run);
    assert_ok(read_run(GRID, &run)); /* not elastic: its own layout or none */
    assert_ok(sl_run_layout_fit(&run, 24, &layout));
    assert_fails(sl_run_layout_fit(&run, 23, &layout), SL_ENONE, "24 slots");
    sl_run_free(&run);
    /* a bidirectional pipeline has two ranks at least */
    assert_ok(read_run(BASE("{pipeline: 4, placement: bidirectional}") "elastic: true\n", &run));
    assert_fails(sl_run_layout_fit(&run, 1, &layout), SL_ENONE, "2 pipeline ranks) needs 2");
    sl_run_free(&run);
}

static int sum(const int *value, int count) {
    int all = 0;
    for (int i = 0; i < count; i++)
        all += value[i];
    return all;
}

static void the_same_microbatches_are_divided_over_fewer_replicas(void **state) {
    (void)state;
    sl_run run;
    assert_ok(read_run(GRID "elastic: true\narrangements: [{iteration: 5, split: [5, 1, 1]}]\n", &run));
    assert_ok(sl_run_layout_take(&run, (sl_run_layout){.data = 2, .pipeline = 4}));
    assert_int_equal(sl_run_ranks(&run), 16);
    assert_true(run.batch.split[0] == 4 && run.batch.split[1] == 3);
    assert_int_equal(sum(run.batch.split, 2), run.batch.microbatches);
    assert_null(run.arrangement[0].split);
    sl_run_free(&run);
}

/* Another pipeline with as many replicas keeps their microbatches, and so every bit. */
static void a_shorter_pipeline_has_another_cut_of_the_same_layers(void **state) {
    (void)state;
    sl_run run;
    assert_ok(read_run(
        BASE("{pipeline: 4, data: 2, cut: [1, 3, 3, 1]}") "device: {pace_ms: {F: [1, 2, 3, 6], I: 5, W: 7}, "
                                                          "recompute: [false, true, false, false]}\n"
                                                          "schedule: zb-h1\n"
                                                          "elastic: true\n"
                                                          "arrangements: [{iteration: 5, split: [5, 2], "
                                                          "positions: [1, 0, 2, 3, 4, 5, 6, 7]}]\n"
                                                          "faults:\n"
                                                          "  - {iterations: [2, 6], link: [0, 1], "
                                                          "latency_ms: 60}\n"
                                                          "  - {iterations: [2, 6], link: [2, 3], "
                                                          "latency_ms: 60}\n"
                                                          "  - {iterations: [3, 5], host: b, slowdown: 2}\n"
                                                          "  - {iteration: 50, kill: 3}\n",
        &run));
    assert_ok(sl_run_layout_take(&run, (sl_run_layout){.data = 2, .pipeline = 3}));
    assert_int_equal(run.parallel.stages, 3);
    assert_null(run.parallel.cut);
    for (int stage = 0; stage < 3; stage++) { /* 1 + 2 + 3 + 6 and 4 * 5 ms, over three stages */
        assert_true(run.device.pace_ms[SL_F][stage] == 4 && run.device.recompute[stage]);
        assert_float_equal(run.device.pace_ms[SL_I][stage], 20.0 / 3, 1e-12);
    }
    assert_true(!run.arrangement[0].position && run.arrangement[0].split[0] == 5);
    assert_int_equal(run.faults, 3); /* both directions of the first link, and the host */
    assert_string_equal(run.fault[2].host, "b");
    sl_run_free(&run);
}

/* Two stages per rank stay two; zb-v, which is defined for them, stays, an order in a file does not. */
static void stages_per_rank_and_schedules_that_are_defined_stay(void **state) {
    (void)state;
    sl_run run;
    assert_ok(read_run(BASE("{pipeline: 4}") "schedule: zb-v\nelastic: true\n", &run));
    assert_ok(sl_run_layout_take(&run, (sl_run_layout){.data = 1, .pipeline = 2}));
    assert_int_equal(run.parallel.stages, 4);
    assert_string_equal(run.schedule, "zb-v");
    sl_run_free(&run);
    assert_ok(read_run(BASE("{pipeline: 4}") "schedule: order.csv\nelastic: true\n", &run));
    assert_ok(sl_run_layout_take(&run, (sl_run_layout){.data = 1, .pipeline = 4}));
    assert_string_equal(run.schedule, "order.csv");
    assert_ok(sl_run_layout_take(&run, (sl_run_layout){.data = 1, .pipeline = 2}));
    assert_string_equal(run.schedule, "auto");
    sl_run_free(&run);
}

static void a_layout_is_an_argument(void **state) {
    (void)state;
    char text[SL_RUN_LAYOUT_TEXT];
    sl_run_layout layout;
    sl_run run;
    sl_run_layout_write((sl_run_layout){.data = 2, .pipeline = 12}, text);
    assert_ok(sl_run_layout_named(text, &layout));
    assert_true(layout.data == 2 && layout.pipeline == 12);
    static const char *const wrong[] = {"", "2", "2x", "x2", "0x2", "2x0", "2x-1", "2x2x2", "2x2 "};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(sl_run_layout_named(wrong[i], &layout), SL_EINVAL, "is not a layout");
    assert_ok(read_run(GRID, &run));
    assert_fails(sl_run_layout_take(&run, (sl_run_layout){.data = 4, .pipeline = 4}), SL_EINVAL,
                 "4 replicas");
    assert_fails(sl_run_layout_take(&run, (sl_run_layout){.data = 1, .pipeline = 5}), SL_EINVAL,
                 "5 pipeline");
    sl_run_free(&run);
}

static void mistakes_are_named_with_their_place(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {BASE("{pipeline: 2}") "elastic: {min_replicas: 2}\n",
         "run.yaml:7: 'min_replicas' of 2 is more than parallel.data of 1"},
        {BASE("{pipeline: 2}") "elastic: {min_pipeline: 3}\n",
         "run.yaml:7: 'min_pipeline' of 3 is more than"},
        {BASE("{pipeline: 2}") "elastic: {min_replicas: 0}\n", "min_replicas"},
        {BASE("{pipeline: 2}") "elastic: {test_every_s: 0}\n", "test_every_s"},
        {BASE("{pipeline: 2}") "elastic: {replicas: 1}\n", "replicas"},
        {BASE("{pipeline: 2}") "elastic: maybe\n", "'elastic'"},
        {"model: {layers: 8, width: 128, heads: 4, context: 64}\ndata: {files: [a]}\nbatch: {microbatches: "
         "1}\n"
         "iterations: 6\nelastic: true\n",
         "run.yaml:5: 'elastic' needs checkpoints"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sl_run run;
        assert_fails(read_run(wrong[i].text, &run), SL_EINVAL, wrong[i].says);
        sl_run_free(&run);
    }
    sl_run run;
    assert_ok(read_run(BASE("{pipeline: 2}") "elastic: false\n", &run));
    assert_true(!run.elastic.on && run.elastic.test_every_s == 60);
    sl_run_free(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_are_left_out_first_and_pipeline_ranks_then),
        cmocka_unit_test(the_run_file_limits_the_layouts),
        cmocka_unit_test(the_same_microbatches_are_divided_over_fewer_replicas),
        cmocka_unit_test(a_shorter_pipeline_has_another_cut_of_the_same_layers),
        cmocka_unit_test(stages_per_rank_and_schedules_that_are_defined_stay),
        cmocka_unit_test(a_layout_is_an_argument),
        cmocka_unit_test(mistakes_are_named_with_their_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
