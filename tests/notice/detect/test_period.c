/* The iteration in a sequence of calls: every expected period is how the sequence was made. */
#include "check.h"

#include "base/memory.h"
#include "base/random.h"
#include "notice/detect/period.h"
#include <stdio.h>
#include <stdlib.h>

/* What a program does, call by call; `times` collects the iterations that were told since the period changed.
 */
typedef struct program {
    sl_period *period;
    int64_t now, step; /* ns; each call takes `step` */
    int64_t times[10000];
    int iterations, told_period;
} program;

static void open_program(program *p, size_t history) {
    *p = (program){.step = 1000};
    assert_int_equal(sl_period_open(history, &p->period), SL_OK);
}

static void take(program *p) {
    sl_period_iteration iteration;
    while (sl_period_take(p->period, &iteration)) {
        if (iteration.period != p->told_period)
            p->iterations = 0;
        p->told_period = iteration.period;
        p->times[p->iterations++ % 10000] = iteration.time;
    }
}

static void call(program *p, uint32_t what, uint64_t bytes) {
    sl_symbol symbol = {.communicator = 7, .bytes = bytes, .peer = (int32_t)what % 3 - 1, .call = what};
    assert_int_equal(sl_period_add(p->period, &symbol, p->now), SL_OK);
    p->now += p->step;
    take(p);
}

static void calls(program *p, uint32_t first, int count) {
    for (int i = 0; i < count; i++)
        call(p, first + (uint32_t)i, 64);
}

/* `rounds` of send and receive, then reductions: a loop over microbatches in an iteration. */
static void iteration(program *p, int rounds) {
    for (int i = 0; i < rounds; i++)
        calls(p, 1, 2);
    calls(p, 50, 2);
}

static void a_period_of_17_calls_is_found_with_its_iteration_time(void **state) {
    (void)state;
    program p;
    open_program(&p, 0);
    calls(&p, 100, 23); /* start-up */
    for (int i = 0; i < 40; i++) {
        int64_t begin = p.now;
        for (int c = 0; c < 17; c++) {
            p.now = begin + 200000000LL * c / 17 + (c == 5 ? 3000000 : 0); /* this rank is late there */
            call(&p, c % 4 == 3 ? 2 : (uint32_t)(c % 7), c == 16 ? 4096 : 64);
        }
        p.now = begin + 200000000;
    }
    assert_int_equal(sl_period_calls(p.period), 17);
    assert_true(p.iterations >= 38);
    for (int i = 0; i < p.iterations; i++)
        assert_in_range(p.times[i], 198000000, 202000000); /* 0.2 s within 1 % */
    sl_period_close(p.period);
}

static void a_loop_inside_is_not_taken_for_the_iteration(void **state) {
    (void)state;
    for (int rounds = 1; rounds <= 60; rounds++) {
        program p;
        open_program(&p, 0);
        for (int i = 0; i < 12; i++)
            iteration(&p, rounds);
        assert_int_equal(sl_period_calls(p.period), 2 * rounds + 2);
        assert_true(p.iterations >= 8);
        assert_int_equal(p.times[p.iterations - 1], (2 * rounds + 2) * 1000);
        sl_period_close(p.period);
    }
}

static void bytes_and_peers_tell_calls_apart(void **state) {
    (void)state;
    program p;
    open_program(&p, 0);
    for (int i = 0; i < 60; i++)
        call(&p, 1, (uint64_t)(i % 5) * 8);
    assert_int_equal(sl_period_calls(p.period), 5);
    sl_period_close(p.period);
}

/* Evaluations and checkpoints in between, of other calls or of some of the same. */
static void phases_in_between_are_stepped_over(void **state) {
    (void)state;
    program p;
    open_program(&p, 0);
    calls(&p, 200, 9);
    for (int i = 0; i < 120; i++) {
        iteration(&p, 8);
        if (i == 30 || i == 71) /* evaluation: forwards only */
            for (int e = 0; e < 11; e++)
                calls(&p, 1, 1);
        if (i == 50 || i == 90 || i == 103) /* checkpoint */
            calls(&p, 300, 6);
    }
    assert_int_equal(sl_period_calls(p.period), 18);
    assert_true(p.iterations >= 105); /* at most two are lost at a phase, and those before the first search */
    for (int i = 0; i < p.iterations; i++)
        assert_int_equal(p.times[i], 18000);
    sl_period_close(p.period);
}

/* 1F1B of an inner rank: warm-up, a loop of one forward and one backward, cool-down, the reduction. */
static int one_f_one_b(program *p, int microbatches) {
    for (int i = 0; i < microbatches; i++) {
        calls(p, 1, 2);
        if (i >= 3)
            calls(p, 5, 2);
    }
    for (int i = 0; i < 3; i++)
        calls(p, 5, 2);
    calls(p, 50, 1);
    return 4 * microbatches + 1;
}

static void an_iteration_of_a_pipeline_is_found(void **state) {
    (void)state;
    for (int microbatches = 4; microbatches <= 64; microbatches *= 2) {
        program p;
        int period = 0;
        open_program(&p, 0);
        for (int i = 0; i < 12; i++)
            period = one_f_one_b(&p, microbatches);
        assert_int_equal(sl_period_calls(p.period), period);
        sl_period_close(p.period);
    }
}

static void regular_checkpoints_are_not_taken_for_the_iteration(void **state) {
    (void)state;
    for (int every = 5; every <= 50; every += 5) {
        program p;
        open_program(&p, 0);
        for (int i = 1; i <= 8 * every; i++) {
            one_f_one_b(&p, 8);
            if (i % every == 0)
                calls(&p, 300, 4);
        }
        assert_int_equal(sl_period_calls(p.period), 33);
        assert_true(p.iterations >= 6 * every);
        for (int i = 0; i < p.iterations; i++)
            assert_int_equal(p.times[i], 33000);
        sl_period_close(p.period);
    }
}

static void lost_records_and_long_phases_resynchronise(void **state) {
    (void)state;
    uint64_t seed = getenv("SL_SEED") ? strtoull(getenv("SL_SEED"), NULL, 10) : 5;
    print_message("seed %llu\n", (unsigned long long)seed);
    program p;
    open_program(&p, 0);
    for (int i = 0; i < 210; i++) {
        if (i % 50 == 49)
            calls(&p, 50, (int)(sl_random_mix(seed + (uint64_t)i) % 2)); /* the rest was lost */
        else if (i == 120)
            for (int e = 0; e < 300; e++)
                call(&p, 400 + (uint32_t)(sl_random_mix(seed ^ (uint64_t)e) % 9), 1);
        else
            iteration(&p, 5);
    }
    assert_int_equal(sl_period_calls(p.period), 12);
    assert_true(p.iterations >= 180);
    sl_period_close(p.period);
}

static void a_program_that_goes_over_to_another_loop_is_followed(void **state) {
    (void)state;
    program p;
    open_program(&p, 0);
    for (int i = 0; i < 50; i++)
        iteration(&p, 4);
    assert_int_equal(sl_period_calls(p.period), 10);
    for (int i = 0; i < 100; i++)
        calls(&p, 500, 13);
    assert_int_equal(sl_period_calls(p.period), 13);
    assert_int_equal(p.times[p.iterations - 1], 13000);
    sl_period_close(p.period);
}

static void what_never_repeats_has_no_period(void **state) {
    (void)state;
    program p;
    open_program(&p, 256);
    for (int i = 0; i < 200000; i++) /* more different calls than are kept */
        call(&p, 1, (uint64_t)i);
    assert_int_equal(sl_period_calls(p.period), 0);
    assert_int_equal(p.iterations, 0);
    for (int i = 0; i < 30; i++)
        iteration(&p, 3);
    assert_int_equal(sl_period_calls(p.period), 8);
    sl_period_close(p.period);
}

static void a_short_log_is_searched_at_its_end(void **state) {
    (void)state;
    program p;
    open_program(&p, 0);
    for (int i = 0; i < 3; i++)
        calls(&p, 1, 31);
    call(&p, 1, 64);
    assert_int_equal(sl_period_end(p.period), SL_OK);
    take(&p);
    assert_int_equal(sl_period_calls(p.period), 31);
    assert_int_equal(p.iterations, 3);
    sl_period_close(p.period);
}

static void no_memory_is_an_error_and_nothing_leaks(void **state) {
    (void)state;
    for (int n = 0; n < 8; n++) {
        sl_period *period;
        sl_alloc_fail_at(n);
        assert_int_equal(sl_period_open(64, &period), SL_ENOMEM);
        assert_null(period);
    }
    sl_alloc_fail_at(-1);
}

/* 65,536 different calls are as many as are kept; after them, the loop before is no longer known, and another
 * one has to show itself three times before anything is called an iteration. */
static void what_was_found_is_forgotten_with_the_calls_that_it_is_made_of(void **state) {
    (void)state;
    program p;
    open_program(&p, 0);
    for (int i = 0; i < 20; i++)
        calls(&p, 1, 4);
    assert_int_equal(sl_period_calls(p.period), 4);
    calls(&p, 1000, 65532);
    p.iterations = 0;
    for (int round = 0; round < 2; round++)
        calls(&p, 100000, 4);
    assert_int_equal(sl_period_calls(p.period), 0);
    assert_int_equal(p.iterations, 0);
    for (int round = 0; round < 20; round++)
        calls(&p, 200000, 7);
    assert_int_equal(sl_period_calls(p.period), 7);
    assert_true(p.iterations >= 15);
    sl_period_close(p.period);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_period_of_17_calls_is_found_with_its_iteration_time),
        cmocka_unit_test(a_loop_inside_is_not_taken_for_the_iteration),
        cmocka_unit_test(bytes_and_peers_tell_calls_apart),
        cmocka_unit_test(phases_in_between_are_stepped_over),
        cmocka_unit_test(an_iteration_of_a_pipeline_is_found),
        cmocka_unit_test(regular_checkpoints_are_not_taken_for_the_iteration),
        cmocka_unit_test(lost_records_and_long_phases_resynchronise),
        cmocka_unit_test(a_program_that_goes_over_to_another_loop_is_followed),
        cmocka_unit_test(what_never_repeats_has_no_period),
        cmocka_unit_test(a_short_log_is_searched_at_its_end),
        cmocka_unit_test(no_memory_is_an_error_and_nothing_leaks),
        cmocka_unit_test(what_was_found_is_forgotten_with_the_calls_that_it_is_made_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
