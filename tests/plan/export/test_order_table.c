/* Orders in the forms of DeepSpeed and Primus: what is written reads back as the same, what these frameworks
 * print is read, and what is wrong is refused by rank and node. */
#include "exported.h"

static sl_status parse(const sl_problem *p, const char *text, sl_order *order) {
    return sl_order_table_parse("t", text, strlen(text), p, order);
}

static void an_order_survives(const char *form, const sl_problem *p, const char *family) {
    sl_plan plan;
    sl_order order;
    sl_status status;
    assert_ok(sl_plan_make(p, family, &plan));
    char *text = exported(form, p, &plan, NULL, &status);
    assert_non_null(text);
    assert_ok(parse(p, text, &order));
    sl_order_drop_issues(&plan.order);
    if (!sl_order_equal(&order, &plan.order))
        fail_msg("%s of %s, %d ranks: another order", form, family, p->ranks);
    sl_order_free(&order);
    sl_plan_free(&plan);
    free(text);
}

static void what_is_written_is_read_as_it_was(void **state) {
    (void)state;
    static const struct {
        const char *form, *family;
        int ranks, stages, microbatches;
        sl_placement placement;
    } tries[] = {{"deepspeed", "1f1b", 1, 1, 3, SL_LINEAR},
                 {"deepspeed", "1f1b", 2, 2, 7, SL_LINEAR},
                 {"deepspeed", "1f1b", 4, 4, 12, SL_LINEAR},
                 {"deepspeed", "1f1b", 8, 8, 3, SL_LINEAR},
                 {"primus", "1f1b", 3, 3, 5, SL_LINEAR},
                 {"primus", "gpipe", 4, 4, 6, SL_LINEAR},
                 {"primus", "zb-h1", 4, 4, 9, SL_LINEAR},
                 {"primus", "zb-h2", 5, 5, 6, SL_LINEAR},
                 {"primus", "interleaved-1f1b", 4, 8, 8, SL_LOOP},
                 {"primus", "gpipe", 2, 8, 4, SL_LOOP},
                 {"primus", "zb-v", 4, 8, 8, SL_WAVE},
                 {"primus", "gpipe", 3, 6, 5, SL_WAVE}};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        sl_problem p = shaped(tries[i].ranks, tries[i].stages, tries[i].microbatches, tries[i].placement);
        an_order_survives(tries[i].form, &p, tries[i].family);
        sl_problem_free(&p);
    }
}

/* As DeepSpeed's own classes name their arguments, and as Primus prints its table. */
static void what_frameworks_print_is_read(void **state) {
    (void)state;
    static const struct {
        const char *text, *rows[2];
    } tries[] = {
        {"[[[[\"LoadMicroBatch\", {\"buffer_id\": 0}], [\"ForwardPass\", {\"buffer_id\": 0}]], [], "
         "[[\"ForwardPass\", {\"buffer_id\": 1}]], [[\"BackwardPass\", {\"buffer_id\": 0}]], "
         "[[\"BackwardPass\", {\"buffer_id\": 1}], [\"OptimizerStep\", {}]]],\n"
         " [[[\"ForwardPass\", 0]], [[\"BackwardPass\", 0]], [[\"ForwardPass\", 0]], [[\"BackwardPass\", "
         "0]]]]",
         {"F0 F1 B0 B1", "F0 B0 F1 B1"}},
        {"Rank 0: (F|0|0),(SF|0|0),(F|1|0),(SF|1|0),(RB|0|0),(B|0|0),(W|0|0),(RB|1|0),(BW|1|0)\r\n"
         "Rank 1: (RF|0|0),(F|0|0),(B|0|0),(SB|0|0),(W|0|0),(F|1|0),(BW|1|0)\n",
         {"F0 F1 I0 W0 B1", "F0 I0 W0 F1 B1"}},
        {" \n{\"table\": [[{\"func_type\": \"F\", \"mini_batch\": 0, \"chunk\": 0}, {\"func_type\": \"F\", "
         "\"mini_batch\": 1, \"chunk\": 0}, {\"func_type\": \"BW\", \"mini_batch\": 1, \"chunk\": 0}, "
         "{\"func_type\": \"BW\", \"mini_batch\": 0, \"chunk\": 0}], [{\"func_type\": \"F\", \"mini_batch\": "
         "0, "
         "\"chunk\": 0}, {\"func_type\": \"F\", \"mini_batch\": 1, \"chunk\": 0}, {\"func_type\": \"BW\", "
         "\"mini_batch\": 1, \"chunk\": 0}, {\"func_type\": \"BW\", \"mini_batch\": 0, \"chunk\": 0}]]}",
         {"F0 F1 B1 B0", "F0 F1 B1 B0"}}};
    sl_problem p = shaped(2, 2, 2, SL_LINEAR);
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        sl_order order;
        assert_true(sl_order_table_is(tries[i].text, strlen(tries[i].text)));
        assert_ok(parse(&p, tries[i].text, &order));
        for (int rank = 0; rank < 2; rank++)
            assert_string_equal(text_of(&order, rank), tries[i].rows[rank]);
        sl_order_free(&order);
    }
    sl_problem_free(&p);
    assert_false(sl_order_table_is("0F0,0B0\n", 8));
    assert_false(sl_order_table_is(" ", 1));
    assert_false(sl_order_table_is("", 0));
}

/* A wave of 2 ranks: chunk 1 of rank 0 is stage 3. */
static void chunks_are_stages_of_their_placement(void **state) {
    (void)state;
    sl_problem p = shaped(2, 4, 1, SL_WAVE);
    sl_order order;
    assert_ok(parse(
        &p, "Rank 0: (F|0|0),(F|0|1),(BW|0|1),(BW|0|0)\nRank 1: (F|0|0),(F|0|1),(BW|0|1),(BW|0|0)", &order));
    static const int stages[2][2] = {{0, 3}, {1, 2}};
    for (int rank = 0; rank < 2; rank++)
        for (int i = 0; i < 2; i++)
            assert_int_equal(order.ops[rank][i].stage, stages[rank][i]);
    sl_order_free(&order);
    p.placement = SL_LOOP;
    assert_ok(parse(
        &p, "Rank 0: (F|0|0),(F|0|1),(BW|0|1),(BW|0|0)\nRank 1: (F|0|0),(F|0|1),(BW|0|1),(BW|0|0)", &order));
    assert_int_equal(order.ops[0][1].stage, 2);
    sl_order_free(&order);
    sl_problem_free(&p);
}

static void what_is_wrong_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } tries[] = {
        {"{", "t:1"},
        {"{}", "'stages' 'table'"},
        {"[[]]", "1 ranks 2"},
        {"[[[[\"ForwardPass\"]]], []]", "rank 0 node 0"},
        {"[[[[\"ForwardPass\", 7]]], []]", "rank 0 node 0"},
        {"[[[[\"BackwardPass\", 0]]], []]", "rank 0 node 0"},
        {"[[[[\"ForwardPass\", 0], [\"ForwardPass\", 0]]], []]", "rank 0 node 1"},
        {"[[[[\"WeightPass\"]]], []]", "rank 0 ForwardPass BackwardPass"},
        {"[[[4]], []]", "rank 0 node 0"},
        {"[[[[\"ForwardPass\", 0], [\"BackwardPass\", 0], [\"ForwardPass\", 0], [\"BackwardPass\", 0], "
         "[\"ForwardPass\", 0]]], []]",
         "rank 0 node 4"},
        {"[[], []]", "t"},
        {"[[{\"func_type\": \"F\"}], []]", "rank 0 node 0 func_type mini_batch chunk"},
        {"[[{\"func_type\": \"FB\", \"mini_batch\": 0, \"chunk\": 0}], []]", "rank 0 node 0 BW"},
        {"[[{\"func_type\": \"F\", \"mini_batch\": 2, \"chunk\": 0}], []]", "rank 0 node 0"},
        {"[[{\"func_type\": \"F\", \"mini_batch\": 0, \"chunk\": 1}], []]", "rank 0 node 0"},
        {"Rank 1: (F|0|0)\n", "t:1 'Rank 0:'"},
        {"Rank 0: (F|0|0)\n", "1 ranks 2"},
        {"Rank 0: \nRank 1: \nRank 2: \n", "2 ranks"},
        {"Rank 0: (F|0)\nRank 1: \n", "rank 0 node 0 (F|0|0)"},
        {"Rank 0: (F|0|0) (F|1|0)\nRank 1: \n", "rank 0 node 0"},
        {"Rank 0: (FFFF|0|0)\nRank 1: \n", "rank 0 node 0 (F|0|0)"},
        {"Rank 0: (F|99999999999|0)\nRank 1: \n", "rank 0 node 0"}};
    sl_problem p = shaped(2, 2, 2, SL_LINEAR);
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        sl_order order;
        if (parse(&p, tries[i].text, &order) != SL_EINVAL)
            fail_msg("'%s' is accepted", tries[i].text);
        assert_says(sl_error_text(), tries[i].says);
        sl_order_free(&order);
    }
    sl_order order;
    p.communication = SL_FIFO;
    assert_fails(parse(&p, "[[], []]", &order), SL_EINVAL, "fifo csv-comms");
    p.communication = SL_DECOUPLED;
    p.parts = 2;
    assert_fails(parse(&p, "[[], []]", &order), SL_EINVAL, "2 parts");
    sl_problem_free(&p);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    sl_problem p = shaped(2, 2, 1, SL_LINEAR);
    static const char *const texts[] = {
        "[[[[\"ForwardPass\", 0], [\"BackwardPass\", 0]]], [[[\"ForwardPass\", 0], [\"BackwardPass\", 0]]]]",
        "Rank 0: (F|0|0),(BW|0|0)\nRank 1: (F|0|0),(BW|0|0)\n"};
    for (int i = 0; i < 2; i++)
        for (long n = 0, done = 0; !done; n++) {
            sl_order order;
            sl_alloc_fail_at(n);
            sl_status status = parse(&p, texts[i], &order);
            sl_alloc_fail_at(-1);
            assert_true(status == SL_OK || status == SL_ENOMEM);
            done = status == SL_OK;
            sl_order_free(&order);
        }
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_as_it_was), cmocka_unit_test(what_frameworks_print_is_read),
        cmocka_unit_test(chunks_are_stages_of_their_placement), cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
