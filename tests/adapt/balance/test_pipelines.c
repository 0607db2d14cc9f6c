/* Iteration times of whole pipelines as functions of their microbatches, and splits by them. */
#include "random_problem.h"

#include "adapt/balance/pipelines.h"
#include "base/memory.h"

static void make_pipeline(int ranks, sl_time op, sl_problem *p) {
    assert_ok(sl_problem_make(ranks, ranks, 1, p));
    for (int stage = 0; stage < ranks; stage++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            p->time[kind][stage] = op;
        p->time[SL_B][stage] = 2 * op;
    }
}

static sl_time planned(sl_pipelines *pipelines, int replica, int microbatches) {
    sl_time time = 0;
    assert_ok(sl_pipelines_planned(pipelines, replica, microbatches, &time));
    return time;
}

/* 1F1B of p even stages: p - 1 forwards to fill, p - 1 backwards to drain, 3 ops a microbatch between. */
static void an_even_1f1b_takes_its_formula(void **state) {
    (void)state;
    sl_problem p;
    sl_pipelines *pipelines;
    make_pipeline(4, 10 * SL_MS, &p);
    assert_ok(sl_pipelines_open("1f1b", 40, &pipelines));
    assert_ok(sl_pipelines_add(pipelines, &p, 0));
    assert_ok(sl_pipelines_add(pipelines, &p, 45e6));
    for (int m = 1; m <= 40; m++) {
        assert_int_equal(planned(pipelines, 0, m), 30 * (m + 3) * SL_MS);
        assert_int_equal(planned(pipelines, 1, m), 45 * (m + 3) * SL_MS);
    }
    int split[2];
    sl_time time[2];
    assert_ok(sl_pipelines_balance(pipelines, 20, NULL, split, time));
    assert_int_equal(split[0], 13); /* 30 * 16 and 45 * 10; 12 and 8 take 495 */
    assert_int_equal(split[1], 7);
    assert_int_equal(time[0], 480 * SL_MS);
    assert_int_equal(time[1], 450 * SL_MS);
    sl_pipelines_close(pipelines);
    sl_problem_free(&p);
}

/* GPipe holds every microbatch: with room for five on a rank there is no sixth. */
static void memory_limits_what_a_replica_takes(void **state) {
    (void)state;
    sl_problem small, large;
    sl_pipelines *pipelines;
    make_pipeline(2, 10 * SL_MS, &small);
    make_pipeline(2, 20 * SL_MS, &large);
    assert_ok(sl_alloc(&small.limit, 2, sizeof *small.limit));
    small.limit[0] = small.limit[1] = 5;
    assert_ok(sl_pipelines_open("gpipe", 15, &pipelines));
    assert_ok(sl_pipelines_add(pipelines, &small, 0));
    assert_ok(sl_pipelines_add(pipelines, &large, 0));
    int split[2];
    sl_time time[2];
    assert_ok(sl_pipelines_balance(pipelines, 16, NULL, split, time));
    assert_int_equal(split[0], 5); /* though it is twice as fast */
    assert_int_equal(split[1], 11);
    assert_fails(sl_pipelines_planned(pipelines, 0, 6, &time[0]), SL_ENONE, "does not take 6");
    sl_pipelines_close(pipelines);

    assert_ok(sl_pipelines_open("gpipe", 15, &pipelines));
    assert_ok(sl_pipelines_add(pipelines, &small, 0));
    assert_ok(sl_pipelines_add(pipelines, &small, 0));
    assert_fails(sl_pipelines_balance(pipelines, 11, NULL, split, time), SL_ENONE, "does not take 11");
    sl_pipelines_close(pipelines);

    small.limit[0] = 0.5;
    assert_ok(sl_pipelines_open("gpipe", 15, &pipelines));
    assert_fails(sl_pipelines_add(pipelines, &small, 0), SL_ENONE, "over its limit");
    sl_pipelines_close(pipelines);
    sl_problem_free(&small);
    sl_problem_free(&large);
}

static sl_time least_of_all(sl_pipelines *pipelines, int replicas, int from, int left) {
    sl_time least = SL_TIME_NEVER;
    if (from == replicas - 1)
        return planned(pipelines, from, left);
    for (int m = 1; m <= left - (replicas - 1 - from); m++) {
        sl_time time = planned(pipelines, from, m),
                rest = least_of_all(pipelines, replicas, from + 1, left - m);
        time = time > rest ? time : rest;
        least = time < least ? time : least;
    }
    return least;
}

/* Published orders of any pipeline, with slow links: 1F1B and GPipe never get shorter by a microbatch. */
static void splits_of_any_pipelines_are_the_best_of_all(void **unused) {
    (void)unused;
    uint64_t state = seed_of(1);
    for (int n = 0; n < 40; n++) {
        sl_problem p[3];
        sl_pipelines *pipelines;
        int replicas = 2 + draw(&state, 2), microbatches = replicas + draw(&state, 10), split[3], sum = 0;
        sl_time time[3], largest = 0;
        assert_ok(sl_pipelines_open(n % 2 ? "1f1b" : "gpipe", microbatches, &pipelines));
        for (int i = 0; i < replicas; i++) {
            make_pipeline(1 + draw(&state, 4), 1 + draw(&state, 20000000), &p[i]);
            for (int stage = 0; stage < p[i].stages; stage++)
                p[i].time[SL_F][stage] += draw(&state, 5000000);
            for (int link = 0; link < p[i].ranks * p[i].ranks; link++)
                p[i].link[link].latency = draw(&state, 3) == 0 ? draw(&state, 60) * SL_MS : 0;
            assert_ok(sl_pipelines_add(pipelines, &p[i], draw(&state, 2) ? 1e6 * (1 + draw(&state, 90)) : 0));
        }
        assert_ok(sl_pipelines_balance(pipelines, microbatches, NULL, split, time));
        for (int i = 0; i < replicas; i++) {
            sum += split[i];
            largest = time[i] > largest ? time[i] : largest;
            assert_int_equal(time[i], planned(pipelines, i, split[i]));
        }
        assert_int_equal(sum, microbatches);
        assert_int_equal(largest, least_of_all(pipelines, replicas, 0, microbatches));
        sl_pipelines_close(pipelines);
        for (int i = 0; i < replicas; i++)
            sl_problem_free(&p[i]);
    }
}

static void alike_replicas_share_their_plans(void **state) {
    (void)state;
    sl_problem p;
    sl_pipelines *pipelines;
    int split[64];
    sl_time time[64];
    make_pipeline(4, 10 * SL_MS, &p);
    assert_ok(sl_pipelines_open("1f1b", 1000, &pipelines));
    for (int i = 0; i < 64; i++)
        assert_ok(sl_pipelines_add(pipelines, &p, i == 5 ? 60e6 : 30e6));
    assert_ok(sl_pipelines_balance(pipelines, 1000, NULL, split, time));
    assert_in_range(sl_pipelines_plans(pipelines), 2, 40); /* not 64, and not 1,000 each */
    sl_pipelines_close(pipelines);
    sl_problem_free(&p);
}

/* A problem has at most 65,536 microbatches and 16,777,216 ops: 43,690 of 128 stages. */
static void what_a_problem_may_have_is_a_limit(void **state) {
    (void)state;
    sl_problem p;
    sl_pipelines *pipelines;
    int split[2];
    sl_time time[2];
    make_pipeline(128, 10 * SL_MS, &p);
    assert_ok(sl_pipelines_open("1f1b", 99999, &pipelines));
    assert_ok(sl_pipelines_add(pipelines, &p, 0));
    assert_ok(sl_pipelines_add(pipelines, &p, 0));
    assert_fails(sl_pipelines_balance(pipelines, 100000, NULL, split, time), SL_ENONE,
                 "take 87380 microbatches");
    assert_fails(sl_pipelines_planned(pipelines, 0, 43691, time), SL_ENONE, "at most 43690");
    sl_pipelines_close(pipelines);
    sl_problem_free(&p);
}

static void pipelines_that_cannot_be_asked_are_refused(void **state) {
    (void)state;
    sl_problem p;
    sl_pipelines *pipelines;
    assert_fails(sl_pipelines_open("fastest", 4, &pipelines), SL_EINVAL, "unknown schedule 'fastest'");
    assert_ok(sl_pipelines_open("1f1b", 4, &pipelines));
    make_pipeline(2, 0, &p);
    assert_fails(sl_pipelines_add(pipelines, &p, 0), SL_EINVAL, "take no time");
    sl_problem_free(&p);
    make_pipeline(2, 10 * SL_MS, &p);
    assert_fails(sl_pipelines_add(pipelines, &p, 1e14), SL_EINVAL, "F of stage 0 would take");
    p.placement = SL_BIDIRECTIONAL;
    assert_fails(sl_pipelines_add(pipelines, &p, 0), SL_EINVAL, "even numbers of microbatches");
    sl_problem_free(&p);
    sl_pipelines_close(pipelines);
}

static sl_status balance_two(const sl_problem *p, int *split, sl_time *time) {
    sl_pipelines *pipelines = NULL;
    sl_status status = sl_pipelines_open("1f1b", 9, &pipelines);
    if (status == SL_OK)
        status = sl_pipelines_add(pipelines, p, 0);
    if (status == SL_OK)
        status = sl_pipelines_add(pipelines, p, 60e6);
    if (status == SL_OK)
        status = sl_pipelines_balance(pipelines, 10, NULL, split, time);
    sl_pipelines_close(pipelines);
    return status;
}

static void want_of_memory_anywhere_is_an_error(void **state) {
    (void)state;
    sl_problem p;
    int split[2], failures = 0;
    sl_time time[2];
    make_pipeline(2, 10 * SL_MS, &p);
    for (long n = 0;; n++) {
        sl_alloc_fail_at(n);
        sl_status status = balance_two(&p, split, time);
        sl_alloc_fail_at(-1);
        if (status == SL_OK)
            break;
        assert_int_equal(status, SL_ENOMEM);
        failures++;
    }
    assert_true(failures > 20);
    assert_int_equal(split[0], 7); /* 30 * 8 and 60 * 4 */
    assert_int_equal(split[1], 3);
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_even_1f1b_takes_its_formula),
        cmocka_unit_test(memory_limits_what_a_replica_takes),
        cmocka_unit_test(splits_of_any_pipelines_are_the_best_of_all),
        cmocka_unit_test(want_of_memory_anywhere_is_an_error),
        cmocka_unit_test(alike_replicas_share_their_plans),
        cmocka_unit_test(what_a_problem_may_have_is_a_limit),
        cmocka_unit_test(pipelines_that_cannot_be_asked_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
