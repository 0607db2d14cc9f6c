/* The job's iteration times out of those of its ranks. */
#include "check.h"
#include "notice/control/iteration_samples.c" /* for its count of blocks */

#include <stdlib.h>

static void add(sl_iteration_samples *samples, int rank, int64_t start, int64_t time, sl_time now) {
    sl_message_block block = {.rank = rank,
                              .process = 100 + rank,
                              .count = 1,
                              .period = 4,
                              .start = start,
                              .end = start + time,
                              .time = time};
    assert_ok(sl_iteration_samples_add(samples, &block, now));
}

static void sample_is_the_median_over_ranks_that_are_there(void **state) {
    (void)state;
    sl_iteration_samples *samples;
    sl_sample sample;
    int64_t at = 1000 * SL_SECOND;
    assert_ok(sl_iteration_samples_open(&samples));
    for (int i = 0; i < 10; i++, at += 100 * SL_MS) {
        add(samples, 0, at, 100 * SL_MS, at);
        add(samples, 1, at + 30 * SL_MS, 102 * SL_MS, at); /* begins elsewhere in the loop */
        add(samples, 2, at - 20 * SL_MS, 104 * SL_MS, at);
    }
    int count = 0;
    while (sl_iteration_samples_take(samples, at + SL_SECOND, &sample)) {
        assert_int_equal(sample.ranks, 3);
        assert_int_equal(sample.iteration, count++);
        assert_near(sample.time_ms, 102, 1e-9);
        assert_near(sample.slowest_ms, 104, 1e-9);
    }
    assert_true(count >= 9);
    /* rank 1 is gone: waited for, but not for ever */
    sl_iteration_samples_lost(samples, 2);
    add(samples, 0, at, 100 * SL_MS, at);
    add(samples, 0, at + 100 * SL_MS, 100 * SL_MS, at);
    while (sl_iteration_samples_take(samples, at + SL_SECOND / 2, &sample))
        count++;
    int before = count;
    while (sl_iteration_samples_take(samples, at + 3 * SL_SECOND, &sample))
        count++;
    assert_true(count > before);
    assert_int_equal(sample.ranks, 1);
    sl_iteration_samples_close(samples);
}

/* While one rank is waited for, the blocks of another are kept: 200 of 1 ms fit into the wait. */
static void blocks_that_wait_are_kept_in_order(void **state) {
    (void)state;
    sl_iteration_samples *samples;
    sl_sample sample;
    int64_t at = 1000 * SL_SECOND;
    assert_ok(sl_iteration_samples_open(&samples));
    for (int i = 0; i < 3; i++) /* the queue does not begin at its first place */
        add(samples, 0, at + i * SL_MS, SL_MS, at);
    add(samples, 70, at, SL_MS, at);
    while (sl_iteration_samples_take(samples, at + 3 * SL_SECOND, &sample))
        ;
    assert_int_equal(sample.start, at + 2 * SL_MS);
    for (int i = 3; i < 203; i++)
        add(samples, 0, at + i * SL_MS, SL_MS, at + 3 * SL_SECOND);
    for (int i = 3; i < 203; i++) {
        assert_true(sl_iteration_samples_take(samples, at + 5 * SL_SECOND, &sample));
        assert_int_equal(sample.start, at + i * SL_MS);
    }
    assert_false(sl_iteration_samples_take(samples, at + 5 * SL_SECOND, &sample));
    sl_iteration_samples_close(samples);
}

static void blocks_beyond_2_to_the_31_still_make_the_level(void **state) {
    (void)state;
    sl_iteration_samples *samples;
    int64_t at = 1000 * SL_SECOND;
    assert_ok(sl_iteration_samples_open(&samples));
    add(samples, 0, at, 100 * SL_MS, at);
    samples->rank[0].seen = INT32_MAX - 1;
    for (int i = 1; i <= 2 * LEVEL; i++)
        add(samples, 0, at + i * SL_SECOND, 300 * SL_MS, at + i * SL_SECOND);
    assert_int_equal(samples->rank[0].level, 300 * SL_MS);
    sl_iteration_samples_close(samples);
}

static void rank_that_follows_an_inner_loop_does_not_count(void **state) {
    (void)state;
    sl_iteration_samples *samples;
    sl_sample sample;
    int64_t at = 1000 * SL_SECOND;
    assert_ok(sl_iteration_samples_open(&samples));
    for (int i = 0; i < 20; i++, at += 100 * SL_MS) {
        for (int k = 0; k < 4; k++)
            add(samples, 0, at + k * 25 * SL_MS, 25 * SL_MS, at); /* four rounds an iteration */
        add(samples, 1, at, 100 * SL_MS, at);
    }
    while (sl_iteration_samples_take(samples, at + SL_SECOND, &sample))
        assert_near(sample.time_ms, 100, 1e-9);
    sl_iteration_samples_close(samples);
}

static void add_loop(sl_iteration_samples *samples, int rank, int period, int64_t start, int64_t time,
                     sl_time now) {
    sl_message_block block = {.rank = rank,
                              .process = 100 + rank,
                              .count = 1,
                              .period = period,
                              .start = start,
                              .end = start + time,
                              .time = time};
    assert_ok(sl_iteration_samples_add(samples, &block, now));
}

/* Rank 0 has iterations of 16 calls and 100 ms, rank 1 follows a loop inside of 4 calls and 50 ms. Gives the
 * time after `iterations`; *period of the last sample. */
static int64_t run_two(sl_iteration_samples *samples, int64_t at, int iterations, int *period) {
    sl_sample sample;
    for (int i = 0; i < iterations; i++, at += 100 * SL_MS) {
        add_loop(samples, 1, 4, at, 50 * SL_MS, at + 50 * SL_MS);
        while (sl_iteration_samples_take(samples, at + 50 * SL_MS, &sample))
            *period = sample.period;
        add_loop(samples, 1, 4, at + 50 * SL_MS, 50 * SL_MS, at + 99 * SL_MS);
        while (sl_iteration_samples_take(samples, at + 99 * SL_MS, &sample))
            *period = sample.period;
        add_loop(samples, 0, 16, at, 100 * SL_MS, at + 100 * SL_MS);
        while (sl_iteration_samples_take(samples, at + 100 * SL_MS, &sample))
            *period = sample.period;
    }
    return at;
}

static void whoever_is_heard_first_after_a_standstill_is_not_the_reference(void **state) {
    (void)state;
    sl_iteration_samples *samples;
    int period = 0;
    assert_ok(sl_iteration_samples_open(&samples));
    int64_t at = run_two(samples, 1000 * SL_SECOND, 20, &period);
    assert_int_equal(period, 16);
    for (int hold = 0; hold < 3; hold++) {
        sl_sample sample;
        add_loop(samples, 1, 4, at, 50 * SL_MS, at + 50 * SL_MS); /* it comes to stand a little later */
        for (int64_t now = at; now < at + (2 + hold) * SL_SECOND; now += 10 * SL_MS)
            while (sl_iteration_samples_take(samples, now, &sample))
                assert_int_equal(sample.period, 16);
        at = run_two(samples, at + (2 + hold) * SL_SECOND, 20, &period);
        assert_int_equal(period, 16);
    }
    sl_iteration_samples_close(samples);
}

static void reference_that_falls_silent_while_others_go_on_is_replaced(void **state) {
    (void)state;
    sl_iteration_samples *samples;
    sl_sample sample;
    int period = 0, taken = 0;
    int64_t last = -1;
    assert_ok(sl_iteration_samples_open(&samples));
    int64_t at = run_two(samples, 1000 * SL_SECOND, 20, &period);
    for (int i = 0; i < 100; i++, at += 50 * SL_MS) {
        add_loop(samples, 1, 4, at, 50 * SL_MS, at + 50 * SL_MS);
        for (; sl_iteration_samples_take(samples, at + 50 * SL_MS, &sample); taken++) {
            assert_true(sample.iteration > last && sample.iteration >= 19); /* the count goes on */
            last = sample.iteration;
            period = sample.period;
        }
    }
    assert_int_equal(period, 4);
    assert_true(taken > 50); /* of 5 s, some 1.5 s are waited */
    sl_iteration_samples_close(samples);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sample_is_the_median_over_ranks_that_are_there),
        cmocka_unit_test(blocks_that_wait_are_kept_in_order),
        cmocka_unit_test(blocks_beyond_2_to_the_31_still_make_the_level),
        cmocka_unit_test(rank_that_follows_an_inner_loop_does_not_count),
        cmocka_unit_test(whoever_is_heard_first_after_a_standstill_is_not_the_reference),
        cmocka_unit_test(reference_that_falls_silent_while_others_go_on_is_replaced),
    };
    cmocka_set_test_filter(getenv("SL_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
