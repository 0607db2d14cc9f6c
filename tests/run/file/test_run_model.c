/* The run file's keys of the model, its cut and its data: they arrive, and every mistake is named with its
 * place. */
#include "check.h"

#include "read_run.h"

#define RUN(model, data, more)                                                                               \
    "model: {layers: 8, width: 96, heads: 6, context: 64" model "}\n"                                        \
    "data: {files: [a]" data "}\n"                                                                           \
    "batch: {microbatches: 12}\n"                                                                            \
    "iterations: 60\n" more

static void keys_arrive(void **state) {
    (void)state;
    sl_run run;
    assert_ok(read_run(RUN(", kind: llama, kv_heads: 2, hidden: 300, vocabulary: 50257, tied: true, "
                           "rope_base: 5e5, norm_eps: 1e-6, weights: some/where",
                           ", tokens: uint16",
                           "parallel: {pipeline: 3, cut: [4, 3, 1]}\ndevice: {recompute: [true, false, "
                           "true]}\n"),
                       &run));
    assert_true(run.model.kind == 1 && run.model.kv_heads == 2 && run.model.hidden == 300 &&
                run.model.vocabulary == 50257 && run.model.tied == 1);
    assert_true(run.model.rope_base == 5e5 && run.model.norm_epsilon == 1e-6 && run.data.tokens == 1);
    assert_string_equal(run.model.weights, "some/where");
    assert_true(run.parallel.cut[0] == 4 && run.parallel.cut[1] == 3 && run.parallel.cut[2] == 1);
    assert_true(run.device.recompute[0] == 1 && run.device.recompute[1] == 0 && run.device.recompute[2] == 1);
    sl_run_free(&run);
}

static void defaults_are_those_of_gpt2_over_bytes(void **state) {
    (void)state;
    sl_run run;
    assert_ok(read_run(RUN("", "", ""), &run));
    assert_true(run.model.kind == 0 && run.model.vocabulary == 256 && run.data.tokens == 0);
    assert_true(run.model.rope_base == 10000 && run.model.norm_epsilon == 1e-5);
    assert_true(!run.model.weights && !run.parallel.cut && !run.device.recompute);
    sl_run_free(&run);
}

/* Recomputation is planned as another F in I: 10 ms each before anything is measured. */
static void recomputation_is_planned_for(void **state) {
    (void)state;
    const double none[2] = {0};
    sl_run run;
    sl_problem problem;
    assert_ok(read_run(RUN("", "", "parallel: {pipeline: 2}\ndevice: {recompute: [false, true]}\n"), &run));
    assert_ok(sl_run_replica_problem(&run, 0, none, none, none, &problem));
    assert_true(problem.time[SL_I][0] == 10 * SL_MS && problem.time[SL_I][1] == 20 * SL_MS);
    assert_true(problem.time[SL_B][0] == 20 * SL_MS && problem.time[SL_B][1] == 30 * SL_MS);
    assert_true(problem.time[SL_F][1] == 10 * SL_MS && problem.time[SL_W][1] == 10 * SL_MS);
    sl_problem_free(&problem);
    sl_run_free(&run);
}

static void every_mistake_is_named_with_its_place(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {RUN(", kind: bert", "", ""), "run.yaml:1: 'kind' must be one of gpt2, llama; got 'bert'"},
        {RUN(", kind: llama, kv_heads: 4", "", ""),
         "run.yaml:1: 'kv_heads' of 4 does not divide the 6 heads"},
        {RUN(", kv_heads: 2", "", ""), "run.yaml:1: 'kv_heads' needs kind llama"},
        {RUN(", tied: false", "", ""), "run.yaml:1: 'tied' of false needs kind llama"},
        {RUN(", rope_base: 500", "", ""), "run.yaml:1: 'rope_base' belongs to kind llama"},
        {RUN(", norm_eps: 1e-6", "", ""), "run.yaml:1: 'norm_eps' belongs to kind llama"},
        {RUN(", vocabulary: 65537", "", ""), "run.yaml:1: 'vocabulary' must be from 2"},
        {RUN("", ", tokens: words", ""), "run.yaml:2: 'tokens' must be one of bytes, uint16; got 'words'"},
        {RUN("", "", "parallel: {pipeline: 3, cut: [4, 4]}\n"),
         "run.yaml:5: 'cut' must be a list of one value for each of the 3 stages"},
        {RUN("", "", "parallel: {pipeline: 3, cut: 4}\n"), "run.yaml:5: 'cut' must be a list"},
        {RUN("", "", "parallel: {pipeline: 3, cut: [4, 4, 1]}\n"),
         "run.yaml:5: 'cut' has 9 blocks in all, the model has 8 layers"},
        {RUN("", "", "parallel: {pipeline: 3, cut: [4, 0, 4]}\n"),
         "run.yaml:5: 'cut' must hold whole numbers of at least 1 (stage 1)"},
        {RUN("", "", "parallel: {pipeline: 3}\ndevice: {recompute: [true, false]}\n"),
         "run.yaml:6: 'recompute' must be a list of one value for each of the 3 stages"},
        {RUN("", "", "device: {recompute: some}\n"), "run.yaml:5: 'recompute' must be true or false"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_run run;
        assert_fails(read_run(cases[i].text, &run), SL_EINVAL, cases[i].says);
        sl_run_free(&run);
    }
    sl_run run; /* heads of 33 */
    assert_fails(read_run("model: {kind: llama, layers: 2, width: 99, heads: 3, context: 8}\n"
                          "data: {files: [a]}\nbatch: {microbatches: 2}\niterations: 1\n",
                          &run),
                 SL_EINVAL, "run.yaml:1: 'heads' makes heads of 33; rotary positions need an even size");
    sl_run_free(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_arrive),
        cmocka_unit_test(defaults_are_those_of_gpt2_over_bytes),
        cmocka_unit_test(recomputation_is_planned_for),
        cmocka_unit_test(every_mistake_is_named_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
