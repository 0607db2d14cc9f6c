/* Forms of frameworks: what each says of small plans, by hand from the frameworks' sources, and what it
 * refuses. tests/torch gives larger ones to the frameworks' own code. */
#include "exported.h"

static void free_both(sl_problem *p, sl_plan *plan) {
    sl_plan_free(plan);
    sl_problem_free(p);
}

static char *export_family(const char *form, sl_problem *p, const char *family,
                           const sl_export_shape *shape) {
    sl_plan plan;
    sl_status status;
    assert_ok(sl_plan_make(p, family, &plan));
    char *text = exported(form, p, &plan, shape, &status);
    if (status != SL_OK)
        fail_msg("%s of %s: %s", form, family, sl_error_text());
    sl_plan_free(&plan);
    return text;
}

/* ---- Megatron-LM ---- */

static void megatron_runs_1f1b_as_it_is(void **state) {
    (void)state;
    sl_problem p = shaped(4, 4, 8, SL_LINEAR);
    sl_export_shape shape = sl_export_shape_standard;
    shape.tensor = 2;
    shape.data = 3;
    shape.microbatch_size = 5;
    shape.sequence = 4096;
    shape.zero = shape.recompute = 1;
    char *text = export_family("megatron", &p, "1f1b", &shape);
    static const char *const flags[] = {"slackline=(\n",
                                        "for 24 ranks",
                                        "--tensor-model-parallel-size 2\n",
                                        "--pipeline-model-parallel-size 4\n",
                                        "--context-parallel-size 1\n",
                                        "--expert-model-parallel-size 1\n",
                                        "--num-layers 4\n",
                                        "--pipeline-model-parallel-layout 'Et|t|t|tL'\n",
                                        "--micro-batch-size 5\n",
                                        "--global-batch-size 120\n", /* 8 x 5 x 3 */
                                        "--seq-length 4096\n",
                                        "--use-distributed-optimizer\n",
                                        ("--recompute-granularity full --recompute-method uniform "
                                         "--recompute-num-layers 1\n")};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        assert_has(text, flags[i]);
    assert_lacks(text, "num_warmup_microbatches");
    assert_lacks(text, "microbatch-group-size");
    assert_has(text, "no layers: each stage counts as one");
    free(text);
    sl_problem_free(&p);
}

/* 4 microbatches, 2 ranks with 2 chunks. In groups of 2, rank 0 begins with 2 (2 - 0 - 1) + (2 - 1) 2 = 4
 * forwards; in groups of 4, with 6. */
static void megatron_interleaves_in_groups_of_the_plans_size(void **state) {
    (void)state;
    static const struct {
        const char *rows[2], *flag;
    } tries[] = {{{"0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3",
                   "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3"},
                  "--microbatch-group-size-per-virtual-pipeline-stage 2\n"},
                 {{"0F0 0F1 0F2 0F3 2F0 2F1 2F2 2B0 2F3 2B1 2B2 2B3 0B0 0B1 0B2 0B3",
                   "1F0 1F1 1F2 1F3 3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 1B0 1B1 1B2 1B3"},
                  "--microbatch-group-size-per-virtual-pipeline-stage 4\n"}};
    for (int i = 0; i < 2; i++) {
        sl_problem p = shaped(2, 4, 4, SL_LOOP);
        sl_plan plan = planned(&p, tries[i].rows);
        sl_status status;
        char *text = exported("megatron", &p, &plan, NULL, &status);
        assert_has(text, tries[i].flag);
        assert_has(text, "--pipeline-model-parallel-layout 'Et|t|t|tL'\n");
        free(text);
        free_both(&p, &plan);
    }
}

static void another_warm_up_is_a_comment(void **state) {
    (void)state;
    sl_problem p = shaped(3, 3, 4, SL_LINEAR);
    static const char *const rows[] = {"0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3", "1F0 1F1 1F2 1B0 1F3 1B1 1B2 1B3",
                                       "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3"};
    sl_plan plan = planned(&p, rows);
    sl_status status;
    char *text = exported("megatron", &p, &plan, NULL, &status);
    assert_has(text, "num_warmup_microbatches must be, by rank:\n# 3, 2, 0\n");
    free(text);
    free_both(&p, &plan);
}

/* ---- torchtitan ---- */

static void torchtitan_gets_modules_and_the_order(void **state) {
    (void)state;
    sl_problem p = shaped(2, 4, 3, SL_WAVE);
    sl_export_shape shape = sl_export_shape_standard;
    shape.data = 2;
    shape.zero = 3;
    static const char *const rows[] = {"0F0 0F1 3F0 3B0 3F1 3B1 0B0 0F2 3F2 3B2 0B1 0B2",
                                       "1F0 2F0 1F1 2F1 2B0 1B0 2B1 1F2 2F2 2B2 1B1 1B2"};
    sl_plan plan = planned(&p, rows);
    sl_status status;
    char *text = exported("torchtitan", &p, &plan, &shape, &status);
    static const char *const parts[] = {
        "pipeline_parallel_degree = 2\n",
        "pipeline_parallel_schedule = \"ZBVZeroBubble\"",
        "pipeline_parallel_schedule_csv = \"schedule.csv\"\n",
        ("    [\"tok_embeddings\", \"layers.0\"],\n    [\"layers.1\"],\n"
         "    [\"layers.2\"],\n    [\"layers.3\", \"norm\", \"lm_head\"],\n]\n"),
        "data_parallel_shard_degree = 2\n",
        "fsdp_reshard_after_forward = \"always\"\n",
        "local_batch_size = 3\nglobal_batch_size = 6\n",
        "# 0F0,0F1,3F0,3B0,3F1,3B1,0B0,0F2,3F2,3B2,0B1,0B2\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_has(text, parts[i]);
    free(text);
    const char *const names[] = {"first", "a \"b\" \\", "c", "d"};
    shape.layer_name = names;
    shape.csv = "there/order.csv";
    text = exported("torchtitan", &p, &plan, &shape, &status);
    assert_has(text, "    [\"first\"],\n    [\"a \\\"b\\\" \\\\\"],\n    [\"c\"],\n    [\"d\"],\n]\n");
    assert_has(text, "pipeline_parallel_schedule_csv = \"there/order.csv\"\n");
    assert_lacks(text, "0F0,");
    free(text);
    free_both(&p, &plan);
}

/* ---- DeepSpeed ---- */

/* Two stages, two microbatches: an op of a stage in turn; what it needs is sent by the other then. */
static void deepspeed_gets_instructions_in_one_sequence(void **state) {
    (void)state;
    sl_problem p = shaped(2, 2, 2, SL_LINEAR);
    char *text = export_family("deepspeed", &p, "1f1b", NULL);
    assert_has(text, "[[\"LoadMicroBatch\", 0], [\"ForwardPass\", 0]],\n"
                     "   [[\"SendActivation\", 0], [\"LoadMicroBatch\", 1], [\"ForwardPass\", 1]],\n"
                     "   [[\"RecvGrad\", 0], [\"BackwardPass\", 0]],\n"
                     "   [[\"SendActivation\", 1], [\"RecvGrad\", 1], [\"BackwardPass\", 1]],\n"
                     "   [[\"ReduceTiedGrads\"], [\"ReduceGrads\"], [\"OptimizerStep\"]]],\n");
    assert_has(text, "[[\"RecvActivation\", 0], [\"LoadMicroBatch\", 0], [\"ForwardPass\", 0]],\n"
                     "   [[\"BackwardPass\", 0]],\n"
                     "   [[\"SendGrad\", 0], [\"RecvActivation\", 0], [\"LoadMicroBatch\", 0], "
                     "[\"ForwardPass\", 0]],\n"
                     "   [[\"BackwardPass\", 0]],\n"
                     "   [[\"SendGrad\", 0], [\"ReduceTiedGrads\"], [\"ReduceGrads\"], "
                     "[\"OptimizerStep\"]]]]}\n");
    assert_has(text, "\"partition\": [0, 1, 2],\n \"buffers\": [2, 2]");
    assert_has(text, "\"gradient_accumulation_steps\": 2");
    free(text);
    sl_problem_free(&p);
}

/* ---- Primus ---- */

/* The rows of tests/python/test_primus.py: rank 0 sends both activations before it takes a gradient. */
static void primus_gets_nodes_with_their_messages(void **state) {
    (void)state;
    sl_problem p = shaped(2, 2, 2, SL_LINEAR);
    char *text = export_family("primus", &p, "1f1b", NULL);
    static const char *const names[2] = {"F0SF0F1SF1RB0BW0RB1BW1", "RF0F0RF1BW0SB0F1BW1SB1"};
    const char *at = strstr(text, "\"table\"");
    for (int rank = 0; rank < 2; rank++) {
        char found[100] = "";
        const char *end = strstr(at, "}]");
        while ((at = strstr(at, "\"func_type\": \"")) && at < end) {
            char function[4];
            int microbatch;
            assert_int_equal(
                sscanf(at, "\"func_type\": \"%3[A-Z]\", \"mini_batch\": %d", function, &microbatch), 2);
            snprintf(found + strlen(found), sizeof found - strlen(found), "%s%d", function, microbatch);
            at++;
        }
        assert_string_equal(found, names[rank]);
        at = end + 2;
    }
    assert_has(text,
               "{\"func_type\": \"SF\", \"mini_batch\": 0, \"chunk\": 0, \"args\": {\"from_pp_rank\": 0, "
               "\"to_pp_rank\": 1, \"send_to_chunk\": 0, \"time_step\": 1}}");
    assert_has(text, "\"pp_size\": 2, \"vpp_size\": 1, \"micro_batches\": 2");
    free(text);
    sl_problem_free(&p);
}

/* ---- what is refused ---- */

static void what_a_form_cannot_say_is_an_error(void **state) {
    (void)state;
    static const struct {
        const char *form, *family, *says;
        int ranks, stages, microbatches, parts, zero, context;
        sl_placement placement;
    } tries[] = {{"megatron", "zb-h1", "rank 0", 4, 4, 8, 1, 0, 1, SL_LINEAR},
                 {"megatron", "zb-v", "wave", 4, 8, 8, 1, 0, 1, SL_WAVE},
                 {"megatron", "chimera", "bidirectional", 4, 8, 8, 1, 0, 1, SL_BIDIRECTIONAL},
                 {"megatron", "gpipe", "15 0", 4, 8, 8, 1, 0, 1, SL_LOOP},
                 {"megatron", "1f1b", "ZeRO 2", 4, 4, 8, 1, 2, 1, SL_LINEAR},
                 {"deepspeed", "zb-h1", "rank 0", 4, 4, 8, 1, 0, 1, SL_LINEAR},
                 {"deepspeed", "gpipe", "last stage 3B0 3F0", 4, 4, 8, 1, 0, 1, SL_LINEAR},
                 {"deepspeed", "interleaved-1f1b", "loop", 4, 8, 8, 1, 0, 1, SL_LOOP},
                 {"deepspeed", "1f1b", "ZeRO 2", 4, 4, 8, 1, 2, 1, SL_LINEAR},
                 {"deepspeed", "1f1b", "context", 4, 4, 8, 1, 0, 2, SL_LINEAR},
                 {"torchtitan", "chimera", "bidirectional", 4, 8, 8, 1, 0, 1, SL_BIDIRECTIONAL},
                 {"torchtitan", "1f1b", "parts 2", 4, 4, 8, 2, 0, 1, SL_LINEAR},
                 {"megatron", "1f1b", "parts 2", 4, 4, 8, 2, 0, 1, SL_LINEAR},
                 {"deepspeed", "1f1b", "parts 2", 4, 4, 8, 2, 0, 1, SL_LINEAR},
                 {"primus", "1f1b", "parts 2", 4, 4, 8, 2, 0, 1, SL_LINEAR},
                 {"pytorch", "1f1b", "parts 2", 4, 4, 8, 2, 0, 1, SL_LINEAR},
                 {"primus", "chimera", "bidirectional", 4, 8, 8, 1, 0, 1, SL_BIDIRECTIONAL}};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        sl_problem p = shaped(tries[i].ranks, tries[i].stages, tries[i].microbatches, tries[i].placement);
        sl_export_shape shape = sl_export_shape_standard;
        sl_plan plan;
        sl_status status;
        p.parts = tries[i].parts;
        shape.zero = tries[i].zero;
        shape.context = tries[i].context;
        assert_ok(sl_plan_make(&p, tries[i].family, &plan));
        char *text = exported(tries[i].form, &p, &plan, &shape, &status);
        if (status != SL_ENONE)
            fail_msg("%s of %s: status %d\n%s", tries[i].form, tries[i].family, status, text ? text : "");
        assert_says(sl_error_text(), tries[i].says);
        free_both(&p, &plan);
    }
}

static void orders_that_a_framework_would_misread_are_errors(void **state) {
    (void)state;
    static const char *const swapped[] = {"0F1 0F0 0B1 0B0", "1F1 1B1 1F0 1B0"};
    sl_problem p = shaped(2, 2, 2, SL_LINEAR);
    sl_plan plan = planned(&p, swapped);
    sl_status status;
    static const char *const forms[] = {"megatron", "torchtitan", "deepspeed", "primus"};
    for (int i = 0; i < 4; i++) {
        assert_null(exported(forms[i], &p, &plan, NULL, &status));
        assert_int_equal(status, SL_ENONE);
    }
    free_both(&p, &plan);
}

/* ---- the shape ---- */

static void a_shape_is_read_from_text(void **state) {
    (void)state;
    sl_export_shape shape;
    assert_ok(
        sl_export_shape_parse("tensor=2,data=4,context=3,expert=8,zero=1,microbatch_size=2,sequence=4096,"
                              "global_batch=64,recompute=1",
                              &shape));
    assert_int_equal(shape.tensor, 2);
    assert_int_equal(shape.data, 4);
    assert_int_equal(shape.context, 3);
    assert_int_equal(shape.expert, 8);
    assert_int_equal(shape.zero, 1);
    assert_int_equal(shape.microbatch_size, 2);
    assert_int_equal(shape.sequence, 4096);
    assert_int_equal(shape.global_batch, 64);
    assert_int_equal(shape.recompute, 1);
    static const char *const wrong[] = {"",
                                        "tensor",
                                        "tensor=",
                                        "tensor=0",
                                        "tensor=-1",
                                        "tensor=2x",
                                        "tenso=2",
                                        "data=1;zero=1",
                                        "zero=4",
                                        "recompute=2",
                                        "tensor=99999999999999999999",
                                        "=2",
                                        "tensor= 2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (sl_export_shape_parse(wrong[i], &shape) != SL_EINVAL)
            fail_msg("'%s' is accepted", wrong[i]);
    sl_problem p = shaped(2, 2, 4, SL_LINEAR);
    sl_plan plan;
    sl_status status;
    assert_ok(sl_plan_make(&p, "1f1b", &plan));
    shape = sl_export_shape_standard;
    shape.global_batch = 5;
    assert_null(exported("megatron", &p, &plan, &shape, &status));
    assert_int_equal(status, SL_EINVAL);
    assert_says(sl_error_text(), "5 4 1 1");
    free_both(&p, &plan);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    sl_problem p = shaped(3, 3, 5, SL_LINEAR);
    sl_plan plan;
    assert_ok(sl_plan_make(&p, "1f1b", &plan));
    for (const sl_export *form = sl_exports; form->name; form++)
        for (long n = 0, done = 0; !done; n++) {
            sl_status status;
            sl_alloc_fail_at(n);
            char *text = exported(form->name, &p, &plan, NULL, &status);
            sl_alloc_fail_at(-1);
            assert_true(status == SL_OK || status == SL_ENOMEM);
            done = status == SL_OK;
            free(text);
        }
    free_both(&p, &plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(megatron_runs_1f1b_as_it_is),
                                       cmocka_unit_test(megatron_interleaves_in_groups_of_the_plans_size),
                                       cmocka_unit_test(another_warm_up_is_a_comment),
                                       cmocka_unit_test(torchtitan_gets_modules_and_the_order),
                                       cmocka_unit_test(deepspeed_gets_instructions_in_one_sequence),
                                       cmocka_unit_test(primus_gets_nodes_with_their_messages),
                                       cmocka_unit_test(what_a_form_cannot_say_is_an_error),
                                       cmocka_unit_test(orders_that_a_framework_would_misread_are_errors),
                                       cmocka_unit_test(a_shape_is_read_from_text),
                                       cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
