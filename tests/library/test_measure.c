/* Measurements of a job that runs somewhere else, as a problem. */
#include "library/simulated_job.h"

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
    simulated_job j;
    make_job(&j, 1, 0);
    set_delay(&j, 0, 20 * ms);
    works(slackline_problem_set_link(j.world[0], 2, 3, 3 * ms, 2 * ms));
    works(slackline_problem_set_time(j.world[0], 2, SLACKLINE_W, 14 * ms));
    for (int i = 0; i < 3; i++) {
        slackline_problem *measured;
        play(&j, 0, origins[i]);
        const slackline_measurements *m = &j.measured[0].given;
        works(slackline_measure(j.problem, m->span, m->spans, m->transfer, m->transfers, &measured));
        assert_same(measured, j.world[0]);
        slackline_problem_free(measured);
    }
    close_job(&j);
}

/* F of 10 and B of 20 ms that run together take 24 ms: the stage saves 6 ms. */
static void pairs_tell_what_overlapping_saves(void **state) {
    (void)state;
    simulated_job j;
    slackline_problem *m, *expected;
    make_job(&j, 1, 0);
    slackline_span pair[] = {{.op = {.kind = SLACKLINE_F, .microbatch = 1, .paired = 1}, .end_ns = 24 * ms},
                             {.op = {.kind = SLACKLINE_B}, .end_ns = 24 * ms}};
    works(slackline_measure(j.problem, pair, 2, NULL, 0, &m));
    works(slackline_problem_copy(j.problem, &expected));
    works(slackline_problem_set_overlapped(expected, 0, 24 * ms));
    assert_same(m, expected);
    slackline_problem_free(m);
    slackline_problem_free(expected);
    refuses(slackline_measure(j.problem, pair, 1, NULL, 0, &m), "without its B");
    pair[1].end_ns++;
    refuses(slackline_measure(j.problem, pair, 2, NULL, 0, &m), "span 1: after the F of a pair comes its B");
    pair[1] = (slackline_span){.op = {.kind = SLACKLINE_I, .paired = 1}};
    refuses(slackline_measure(j.problem, &pair[1], 1, NULL, 0, &m),
            "span 0: the first of a pair is an F, not I");
    close_job(&j);
}

static void measurements_that_cannot_be_are_refused(void **state) {
    (void)state;
    simulated_job j;
    slackline_problem *m;
    make_job(&j, 1, 0);
    slackline_span span = {.rank = 0, .op = {.kind = SLACKLINE_F}, .start_ns = 5, .end_ns = 4};
    slackline_transfer transfer = {.from = 0, .to = 0};
    refuses(slackline_measure(j.problem, &span, 1, NULL, 0, &m), "span 0: from 5 to 4 ns");
    assert_null(m);
    span = (slackline_span){.op = {.stage = 4}};
    refuses(slackline_measure(j.problem, &span, 1, NULL, 0, &m), "stage 4");
    span = (slackline_span){.op = {.kind = SLACKLINE_FETCH + 1}};
    refuses(slackline_measure(j.problem, &span, 1, NULL, 0, &m), "kind 8");
    span = (slackline_span){.op = {.kind = -1}};
    refuses(slackline_measure(j.problem, &span, 1, NULL, 0, &m), "kind -1");
    span = (slackline_span){.op = {.stage = 2}, .rank = 1};
    refuses(slackline_measure(j.problem, &span, 1, NULL, 0, &m), "stage 2 is on rank 2, not 1");
    span = (slackline_span){.op = {.microbatch = 12}};
    refuses(slackline_measure(j.problem, &span, 1, NULL, 0, &m), "no microbatch 12 of 12");
    span = (slackline_span){.op = {.part = 1}};
    refuses(slackline_measure(j.problem, &span, 1, NULL, 0, &m), "part");
    span = (slackline_span){.start_ns = INT64_MIN, .end_ns = INT64_MAX};
    refuses(slackline_measure(j.problem, &span, 1, NULL, 0, &m), "not a valid time of an op");
    refuses(slackline_measure(j.problem, NULL, 1, NULL, 0, &m), "the array is NULL");
    refuses(slackline_measure(j.problem, &span, (size_t)1 << 40, NULL, 0, &m), "more than");
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_measured_is_the_world),
        cmocka_unit_test(pairs_tell_what_overlapping_saves),
        cmocka_unit_test(measurements_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
