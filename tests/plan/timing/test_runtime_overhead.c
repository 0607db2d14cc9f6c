/* `overhead_ms`: times of ops with what a runtime adds, and the same found again in measurements. Expected
 * times are added up by hand. */
#include "plan/pipeline/problem_text.h"
#include "random_problem.h"

#include "plan/pipeline/other_placement.h"
#include "plan/timing/replay.h"
#include "plan/timing/runtime_overhead.h"

#define OVERHEAD "  overhead_ms: {op: 1, message: 0.5}\n"

static void assert_times(const sl_problem *p, int kind, const double *ms) {
    for (int stage = 0; stage < p->stages; stage++)
        assert_int_equal(p->time[kind][stage], sl_from_ms(ms[stage]));
}

/* Of three ranks, the middle one waits for a message and sends one; W has none. */
static void an_op_takes_longer_by_its_overhead_and_its_messages(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text(SHAPE TIMES OVERHEAD, &p));
    assert_times(&p, SL_F, (double[]){11.5, 12, 11.5});
    assert_times(&p, SL_I, (double[]){11.5, 12, 11.5});
    assert_times(&p, SL_W, (double[]){11, 11, 11});
    assert_times(&p, SL_B, (double[]){21.5, 22, 21.5});
    assert_int_equal(sl_problem_own_time(&p, SL_I, 1), 10 * SL_MS);
    sl_problem_free(&p);
}

/* Stages 2 and 3 of a wave are on one rank. */
static void a_message_between_stages_of_a_rank_is_none(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text(SHAPE TIMES OVERHEAD "  placement: wave\n", &p));
    assert_times(&p, SL_F, (double[]){11.5, 12, 11.5, 11.5, 12, 11.5});
    sl_problem_free(&p);
}

/* I and B run F again, but not its messages. */
static void recomputing_adds_no_overhead(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text(SHAPE TIMES OVERHEAD "  recompute: [false, true, false]\n", &p));
    assert_times(&p, SL_I, (double[]){11.5, 22, 11.5});
    assert_times(&p, SL_B, (double[]){21.5, 32, 21.5});
    sl_problem_free(&p);
}

/* Three layers of 4 ms on two ranks: each cut has the overhead of its stages once. */
static void every_cut_of_layers_has_it(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text("pipeline:\n  ranks: 2\n  microbatches: 4\n"
                        "  layers: {count: 3, times_ms: {F: 4, I: 4, W: 4}}\n" OVERHEAD,
                        &p));
    sl_problem_cut(&p, (int[]){0, 2, 3});
    assert_times(&p, SL_F, (double[]){9.5, 5.5});
    sl_problem_cut(&p, (int[]){0, 1, 3});
    assert_times(&p, SL_F, (double[]){5.5, 9.5});
    assert_times(&p, SL_W, (double[]){5, 9});
    sl_problem_free(&p);
}

/* A rank's 10 ms become two chunks of 5 ms, with the messages of their own places. */
static void another_placement_has_its_own(void **state) {
    (void)state;
    sl_problem p, wave;
    assert_ok(read_text(SHAPE TIMES OVERHEAD, &p));
    assert_ok(sl_problem_with_placement(&p, SL_WAVE, &wave));
    assert_times(&wave, SL_F, (double[]){6.5, 7, 6.5, 6.5, 7, 6.5});
    sl_problem_free(&p);
    sl_problem_free(&wave);
}

static void it_is_written_apart_from_the_times(void **state) {
    (void)state;
    sl_problem p, again;
    char *text;
    size_t size;
    assert_ok(read_text(SHAPE TIMES OVERHEAD "  recompute: true\n", &p));
    FILE *out = open_memstream(&text, &size);
    assert_ok(sl_problem_write(&p, out));
    fclose(out);
    assert_non_null(strstr(text, "F: [10.000000, 10.000000, 10.000000]"));
    assert_non_null(strstr(text, "I: [10.000000, 10.000000, 10.000000]"));
    assert_ok(read_text(text, &again));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        assert_memory_equal(p.time[kind], again.time[kind], 3 * sizeof(sl_time));
    free(text);
    sl_problem_free(&p);
    sl_problem_free(&again);
}

static void mistakes_are_named(void **state) {
    (void)state;
    sl_problem p;
    assert_int_equal(read_text(SHAPE TIMES "  overhead_ms: {op: -1}\n", &p), SL_EINVAL);
    assert_non_null(strstr(sl_error_text(), "p.yaml:5"));
    sl_problem_free(&p);
    assert_int_equal(read_text(SHAPE TIMES "  overhead_ms: {ops: 1}\n", &p), SL_EINVAL);
    assert_non_null(strstr(sl_error_text(), "did you mean 'op'"));
    sl_problem_free(&p);
    assert_int_equal(read_text(SHAPE TIMES "  overhead_ms: 1\n", &p), SL_EINVAL);
    sl_problem_free(&p);
}

/* A runtime that begins with an op, receives its message, runs it, and sends: a trace has only the op. */
static void strip(const sl_problem *p, sl_timeline *t) {
    for (int i = 0; i < t->spans; i++) {
        const sl_op *op = &t->span[i].op;
        int rank = t->span[i].rank,
            first = op->kind == SL_F ? sl_problem_previous(p, op->stage) : sl_problem_next(p, op->stage),
            then = op->kind == SL_F ? sl_problem_next(p, op->stage) : sl_problem_previous(p, op->stage);
        int received = op->kind != SL_W && first >= 0 && sl_problem_rank(p, first) != rank,
            sent = op->kind != SL_W && then >= 0 && sl_problem_rank(p, then) != rank;
        t->span[i].start += p->overhead_op + received * p->overhead_message;
        t->span[i].end -= sent * p->overhead_message;
    }
}

/* Exactly, or only the sum of both: where each time between two ops of an order has one message. */
static void it_is_found_again_in_measurements(void **state) {
    (void)state;
    uint64_t random = seed_of(5);
    int checked = 0;
    for (int round = 0; round < 300; round++) {
        sl_problem p;
        sl_plan plan, replayed;
        int family;
        draw_problem(&random, (sl_placement)(round % SL_PLACEMENTS), 1, &p);
        p.communication = SL_DECOUPLED;
        p.parts = 1;
        p.microbatches = 8;
        memset(p.saved, 0, (size_t)p.stages * sizeof *p.saved);
        if (!draw_plan(&random, &p, &plan, &family)) {
            sl_problem_free(&p);
            continue;
        }
        p.overhead_op = draw(&random, 3) ? 2000 + draw(&random, 2000000) : 0;
        p.overhead_message = draw(&random, 3) ? 2000 + draw(&random, 2000000) : 0;
        for (int stage = 0; stage < p.stages; stage++)
            sl_problem_add_overhead(&p, stage, 1);
        assert_ok(sl_plan_of_order(&p, &plan.order, "order", &replayed));
        strip(&p, &replayed.timeline);
        sl_time op, message;
        assert_ok(sl_overhead_measure(&replayed.timeline, &p, &op, &message));
        if (p.ranks > 1 && p.stages == p.ranks && (op || message)) {
            int exact = op == p.overhead_op && message == p.overhead_message;
            assert_true(exact || llabs(op + message - p.overhead_op - p.overhead_message) <= 1);
            checked += exact;
        }
        sl_plan_free(&replayed);
        sl_plan_free(&plan);
        sl_problem_free(&p);
    }
    assert_true(checked > 30);
}

static void without_measurements_there_is_none(void **state) {
    (void)state;
    sl_problem p;
    sl_timeline t;
    sl_time op = 1, message = 1;
    assert_ok(read_text(SHAPE TIMES, &p));
    assert_ok(sl_timeline_make(3, 0, 0, &t));
    assert_ok(sl_overhead_measure(&t, &p, &op, &message));
    assert_int_equal(op + message, 0);
    sl_timeline_free(&t);
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_op_takes_longer_by_its_overhead_and_its_messages),
        cmocka_unit_test(a_message_between_stages_of_a_rank_is_none),
        cmocka_unit_test(recomputing_adds_no_overhead),
        cmocka_unit_test(every_cut_of_layers_has_it),
        cmocka_unit_test(another_placement_has_its_own),
        cmocka_unit_test(it_is_written_apart_from_the_times),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(it_is_found_again_in_measurements),
        cmocka_unit_test(without_measurements_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
