/* Layouts of Megatron-LM, by hand after the comments of its PipelineParallelLayerLayout. tests/torch compares
 * others with that class. */
#include "problem_text.h"

#include "base/memory.h"
#include "plan/pipeline/layer_layout.h"
#include "plan/pipeline/layers.h"

static void the_layout_of_its_documentation(void **state) {
    (void)state;
    sl_layer_layout layout;
    assert_ok(sl_layer_layout_parse("Et*3|(tt|)*29,m|L", &layout));
    assert_int_equal(layout.stages, 32);
    assert_int_equal(layout.layers, 64); /* E, 61 t, m, L */
    assert_int_equal(layout.first[1], 4);
    for (int stage = 1; stage <= 30; stage++)
        assert_int_equal(layout.first[stage], 2 + 2 * stage);
    assert_int_equal(layout.first[31], 63);
    assert_int_equal(layout.first[32], 64);
    assert_memory_equal(layout.letter, "Etttt", 5);
    assert_string_equal(layout.letter + 61, "tmL");
    sl_layer_layout_free(&layout);
}

/* A text, all of it written out, and what is written again. */
static void repetitions_mean_what_megatron_core_makes_of_them(void **state) {
    (void)state;
    static const struct {
        const char *text, *letters, *written;
        int stages;
    } tries[] = {{"EtL", "EtL", "EtL", 1},
                 {"E,t,|,t,L", "EttL", "Et|tL", 2},
                 {"Et|*2tL", NULL, NULL, 0}, /* two bars: a stage without layers */
                 {"E(tt)*2|L", "EttttL", "Et*4|L", 2},
                 {"E(t*2|)*3L", "EttttttL", "Ett|tt|tt|L", 4},
                 {"E|(t|)*4tL", "EtttttL", "E|(t|)*4tL", 6},
                 {"E(t|t)*2L", "EttttL", "Et|tt|tL", 3},
                 {"Et*0t|tmmL", "EttmmL", "Et|tmmL", 2}};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        sl_layer_layout layout;
        char *text;
        size_t size;
        if (!tries[i].letters) {
            assert_fails(sl_layer_layout_parse(tries[i].text, &layout), SL_EINVAL, "no layer in stage 1");
            sl_layer_layout_free(&layout);
            continue;
        }
        assert_ok(sl_layer_layout_parse(tries[i].text, &layout));
        assert_int_equal(layout.stages, tries[i].stages);
        assert_string_equal(layout.letter, tries[i].letters);
        FILE *out = open_memstream(&text, &size);
        sl_layer_layout_write(layout.letter, layout.first, layout.stages, out);
        fclose(out);
        assert_string_equal(text, tries[i].written);
        free(text);
        sl_layer_layout_free(&layout);
    }
}

static void what_megatron_core_refuses_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } tries[] = {{"", "no layer in stage 0"},
                 {"EtxL", "'x' in stage 0"},
                 {"Et|(t|L", "'(' in stage 1"},
                 {"ttL", "begin with E"},
                 {"EtEL", "only E"},
                 {"Ett", "end with L"},
                 {"ELtL", "only L"},
                 {"EtmtL", "t after m"},
                 {"Etm|mL", "m in several"},
                 {"E||tL", "no layer in stage 1"},
                 {"Et*99999999999L", "65536"},
                 {"E(t|)*5000L", "5001 stages"},
                 {"Et*L", "'*' in stage 0"}};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        sl_layer_layout layout;
        sl_status status = sl_layer_layout_parse(tries[i].text, &layout);
        if (status != SL_EINVAL)
            fail_msg("'%s' is accepted", tries[i].text);
        if (strcmp(tries[i].says, "65536") != 0)
            assert_says(sl_error_text(), tries[i].says);
        sl_layer_layout_free(&layout);
    }
}

#define LAYERS                                                                                               \
    "pipeline:\n  ranks: 2\n  microbatches: 4\n  layers:\n    times_ms: {F: 1, I: 1, W: 1}\n    layout: "

/* One of 4 t and one of 2: stage 0 has E and 3 t, stage 1 the rest. */
static void a_layout_is_the_cut_of_a_problem(void **state) {
    (void)state;
    sl_problem problem, copy, again;
    assert_ok(read_text(LAYERS "Et*3|t,L\n", &problem));
    assert_int_equal(problem.layers->count, 6);
    assert_int_equal(problem.layers->first[1], 4);
    assert_int_equal(problem.time[SL_F][0], 4 * SL_MS);
    assert_int_equal(problem.time[SL_F][1], 2 * SL_MS);
    assert_ok(sl_problem_copy(&problem, &copy));
    assert_string_equal(copy.layers->letter, "EttttL");
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_ok(sl_problem_write(&copy, out));
    fclose(out);
    assert_ok(read_text(text, &again));
    assert_string_equal(again.layers->letter, "EttttL");
    assert_int_equal(again.layers->first[1], 4);
    free(text);
    sl_problem_free(&problem);
    sl_problem_free(&copy);
    sl_problem_free(&again);
}

static void a_layout_must_fit_the_pipeline(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } tries[] = {
        {LAYERS "Et|t|tL\n", "p.yaml:6 'layout' 3 stages 2"},
        {LAYERS "Ett|tL\n    count: 4\n", "p.yaml:6 'layout' 5 layers 'count' 4"},
        {LAYERS "Ett|tx\n", "p.yaml:6 'layout' 'x'"},
        {"pipeline:\n  ranks: 2\n  microbatches: 4\n  layers: {times_ms: {F: 1}}\n", "p.yaml:4 'count'"}};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        sl_problem problem;
        assert_fails(read_text(tries[i].text, &problem), SL_EINVAL, tries[i].says);
        sl_problem_free(&problem);
    }
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (long n = 0, done = 0; !done; n++) {
        sl_layer_layout layout;
        sl_alloc_fail_at(n);
        sl_status status = sl_layer_layout_parse("E(tt|)*3,tL", &layout);
        sl_alloc_fail_at(-1);
        assert_true(status == SL_OK || status == SL_ENOMEM);
        done = status == SL_OK;
        sl_layer_layout_free(&layout);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_layout_of_its_documentation),
                                       cmocka_unit_test(repetitions_mean_what_megatron_core_makes_of_them),
                                       cmocka_unit_test(what_megatron_core_refuses_is_refused),
                                       cmocka_unit_test(a_layout_is_the_cut_of_a_problem),
                                       cmocka_unit_test(a_layout_must_fit_the_pipeline),
                                       cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
