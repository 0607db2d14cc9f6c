/* Measurements of a job that runs somewhere else, and the decision to change its schedule: 4 ranks, 12
 * microbatches, F = I = W = 10 ms, 390 ms; with a link of c ms adapted 390 + c. */
#include "library/check_library.h"

typedef struct job {
    slackline_problem *problem, *world; /* what is expected, and what is true */
    slackline_plan *running;
    slackline_adaptation *adaptation;
} job;

static void open_job(job *j) {
    slackline_planner *planner;
    works(slackline_problem_make(SLACKLINE_LINEAR, 4, 0, 12, &j->problem));
    for (int stage = 0; stage < 4; stage++)
        for (int kind = SLACKLINE_F; kind <= SLACKLINE_W; kind++)
            works(slackline_problem_set_time(j->problem, stage, (slackline_kind)kind, 10 * ms));
    works(slackline_problem_copy(j->problem, &j->world));
    works(slackline_planner_make(&planner));
    works(slackline_planner_set_schedule(planner, "adaptra"));
    works(slackline_planner_plan(planner, j->problem, &j->running));
    works(slackline_adaptation_make(j->running, NULL, &j->adaptation));
    slackline_planner_free(planner);
}

static void close_job(job *j) {
    slackline_adaptation_free(j->adaptation);
    slackline_plan_free(j->running);
    slackline_problem_free(j->world);
    slackline_problem_free(j->problem);
}

/* Plays an iteration of the running order in the true world, on a clock of its own, and measures it. */
static slackline_problem *play(const job *j, int64_t origin) {
    slackline_plan *played;
    slackline_op *row[4];
    int count[4];
    for (int rank = 0; rank < 4; rank++) {
        count[rank] = slackline_plan_ops(j->running, rank);
        row[rank] = calloc((size_t)count[rank], sizeof *row[rank]);
        for (int i = 0; i < count[rank]; i++)
            row[rank][i] = slackline_plan_op(j->running, rank, i);
    }
    works(slackline_simulate(j->world, (const slackline_op *const *)row, count, &played));
    size_t spans = slackline_plan_spans(played), transfers = slackline_plan_transfers(played);
    slackline_span *span = calloc(spans, sizeof *span);
    slackline_transfer *transfer = calloc(transfers, sizeof *transfer);
    for (size_t i = 0; i < spans; i++) {
        span[i] = slackline_plan_span(played, i);
        span[i].start_ns += origin;
        span[i].end_ns += origin;
    }
    for (size_t i = 0; i < transfers; i++) {
        transfer[i] = slackline_plan_transfer(played, i);
        transfer[i].start_ns += origin;
        transfer[i].end_ns += origin;
        transfer[i].arrive_ns += origin;
    }
    slackline_problem *measured;
    works(slackline_measure(j->problem, span, spans, transfer, transfers, &measured));
    free(span);
    free(transfer);
    for (int rank = 0; rank < 4; rank++)
        free(row[rank]);
    slackline_plan_free(played);
    return measured;
}

static void set_delay(job *j, int64_t delay) {
    works(slackline_problem_set_link(j->world, 0, 1, delay, 0));
    works(slackline_problem_set_link(j->world, 1, 0, delay, 0));
}

static void assert_same(const slackline_problem *a, const slackline_problem *b) {
    char *left, *right;
    works(slackline_problem_write(a, &left, NULL));
    works(slackline_problem_write(b, &right, NULL));
    assert_string_equal(left, right);
    slackline_free(left);
    slackline_free(right);
}

static void what_was_measured_is_the_world(void **state) {
    (void)state;
    static const int64_t origins[] = {0, -5000000000, INT64_MAX - 1000000000000};
    job j;
    open_job(&j);
    set_delay(&j, 20 * ms);
    works(slackline_problem_set_link(j.world, 2, 3, 3 * ms, 2 * ms));
    works(slackline_problem_set_time(j.world, 2, SLACKLINE_W, 14 * ms));
    for (int i = 0; i < 3; i++) {
        slackline_problem *measured = play(&j, origins[i]);
        assert_same(measured, j.world);
        slackline_problem_free(measured);
    }
    close_job(&j);
}

static void measurements_that_cannot_be_are_refused(void **state) {
    (void)state;
    job j;
    slackline_problem *m;
    open_job(&j);
    slackline_span span = {.rank = 0, .op = {.kind = SLACKLINE_F}, .start_ns = 5, .end_ns = 4};
    slackline_transfer transfer = {.from = 0, .to = 0};
    refuses(slackline_measure(j.problem, &span, 1, NULL, 0, &m), "span 0: from 5 to 4 ns");
    assert_null(m);
    span = (slackline_span){.op = {.stage = 4}};
    refuses(slackline_measure(j.problem, &span, 1, NULL, 0, &m), "stage 4");
    span = (slackline_span){.op = {.kind = SLACKLINE_GATHER}};
    refuses(slackline_measure(j.problem, &span, 1, NULL, 0, &m), "kind 4");
    span = (slackline_span){.op = {.paired = 1}};
    refuses(slackline_measure(j.problem, &span, 1, NULL, 0, &m), "pair");
    span = (slackline_span){.start_ns = INT64_MIN, .end_ns = INT64_MAX};
    refuses(slackline_measure(j.problem, &span, 1, NULL, 0, &m), "no time of an op");
    refuses(slackline_measure(j.problem, NULL, 0, &transfer, 1, &m), "no link 0-0");
    transfer = (slackline_transfer){.from = 0, .to = 4};
    refuses(slackline_measure(j.problem, NULL, 0, &transfer, 1, &m), "no link 0-4");
    transfer = (slackline_transfer){.from = 0, .to = 1, .start_ns = 9, .end_ns = 10, .arrive_ns = 8};
    refuses(slackline_measure(j.problem, NULL, 0, &transfer, 1, &m), "arrival");
    works(slackline_measure(j.problem, NULL, 0, NULL, 0, &m));
    assert_same(m, j.problem);
    slackline_problem_free(m);
    close_job(&j);
}

static int has_event(const slackline_decision *d, const char *kind) {
    for (int i = 0; i < d->events; i++)
        if (strcmp(d->event[i].kind, kind) == 0)
            return 1;
    return 0;
}

/* 60 ms between iterations 25 and 60. The swap comes when it has lasted `hold` iterations; adapted an
 * iteration takes 450 ms, and after relief 390 again. */
static void a_job_adapts_to_a_slow_link_and_returns_on_relief(void **state) {
    (void)state;
    job j;
    slackline_summary summary;
    int swaps = 0, returns = 0, onsets = 0, reliefs = 0;
    open_job(&j);
    for (int i = 0; i < 90; i++) {
        slackline_decision d;
        set_delay(&j, i >= 25 && i < 60 ? 60 * ms : 0);
        slackline_problem *measured = play(&j, i * 1000 * ms);
        works(slackline_adaptation_observe(j.adaptation, i, measured, &d));
        slackline_problem_free(measured);
        onsets += has_event(&d, "onset");
        reliefs += has_event(&d, "relief");
        if (d.verdict == SLACKLINE_KEEP)
            continue;
        slackline_plan_free(j.running);
        works(slackline_adaptation_plan(j.adaptation, &j.running));
        slackline_plan_summary(j.running, &summary);
        if (d.verdict == SLACKLINE_SWAP) {
            swaps++;
            assert_in_range(i, 25 + 4, 25 + 10);
            assert_int_equal(summary.makespan_ns, 450 * ms);
            assert_int_equal(d.best_ns, 450 * ms);
            assert_true(d.running_ns > 450 * ms && d.troubled && !d.adapted);
            assert_true(has_event(&d, "swap"));
        } else {
            returns++;
            assert_in_range(i, 60 + 4, 60 + 10);
            assert_int_equal(summary.makespan_ns, 390 * ms);
            assert_true(d.adapted && has_event(&d, "return"));
        }
        slackline_adaptation_swap_took(j.adaptation, 2 * ms);
    }
    assert_int_equal(swaps, 1);
    assert_int_equal(returns, 1);
    assert_int_equal(onsets, 1);
    assert_int_equal(reliefs, 1);
    close_job(&j);
}

static void a_frozen_job_only_says_what_it_would_gain(void **state) {
    (void)state;
    job j;
    slackline_adaptation_options options;
    slackline_adaptation *frozen;
    int kept = 0;
    open_job(&j);
    slackline_adaptation_defaults(&options);
    options.frozen = 1;
    works(slackline_adaptation_make(j.running, &options, &frozen));
    for (int i = 0; i < 40; i++) {
        slackline_decision d;
        set_delay(&j, i >= 10 ? 60 * ms : 0);
        slackline_problem *measured = play(&j, 0);
        works(slackline_adaptation_observe(frozen, i, measured, &d));
        slackline_problem_free(measured);
        assert_int_equal(d.verdict, SLACKLINE_KEEP);
        for (int e = 0; e < d.events; e++)
            if (strcmp(d.event[e].kind, "keep") == 0) {
                kept++;
                assert_int_equal(d.event[e].from, 0);
                assert_int_equal(d.event[e].to, 1);
                assert_non_null(strstr(d.event[e].why, "450.00 ms with the new one"));
            }
    }
    assert_int_equal(kept, 1);
    slackline_adaptation_free(frozen);
    close_job(&j);
}

static void wrong_options_and_shapes_are_refused(void **state) {
    (void)state;
    job j;
    slackline_adaptation *a;
    slackline_problem *other;
    slackline_decision d;
    slackline_adaptation_options standard, o;
    open_job(&j);
    slackline_adaptation_defaults(&standard);
    o = standard, o.schedule = "optimal";
    refuses(slackline_adaptation_make(j.running, &o, &a), "'optimal'");
    assert_null(a);
    o = standard, o.hold = 0;
    refuses(slackline_adaptation_make(j.running, &o, &a), "hold");
    o = standard, o.dwell = 0;
    refuses(slackline_adaptation_make(j.running, &o, &a), "dwell");
    o = standard, o.gain = 0.0 / 0.0;
    refuses(slackline_adaptation_make(j.running, &o, &a), "gain");
    o = standard, o.swap_cost_ns = -1;
    refuses(slackline_adaptation_make(j.running, &o, &a), "a swap cannot cost");
    works(slackline_problem_make(SLACKLINE_LINEAR, 4, 0, 11, &other));
    refuses(slackline_adaptation_observe(j.adaptation, 0, other, &d), "11 microbatches");
    assert_int_equal(d.verdict, SLACKLINE_KEEP);
    slackline_problem_free(other);
    close_job(&j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_measured_is_the_world),
        cmocka_unit_test(measurements_that_cannot_be_are_refused),
        cmocka_unit_test(a_job_adapts_to_a_slow_link_and_returns_on_relief),
        cmocka_unit_test(a_frozen_job_only_says_what_it_would_gain),
        cmocka_unit_test(wrong_options_and_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
