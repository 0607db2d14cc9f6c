/* The diagnosis of one-sided calls, on jobs written by hand. */
#include "check.h"

#include "written.h"

#include <string.h>

#define WINDOW 0x30

static sl_channel_key at_window(int from, int to, int tag) {
    return (sl_channel_key){WINDOW, from, to, tag, SL_CHANNEL_WINDOW};
}

/* Four ranks whose window calls of a ring were made `made` times, as both ends have counted them. */
static void ring(sl_hang_rank *r, sl_window_tag tag, uint64_t made) {
    for (int i = 0; i < 4; i++) {
        r[i] = blank(i);
        counts(&r[i], collective(WORLD), 9);
    }
    for (int i = 0; i < 4; i++) {
        counts(&r[i], at_window(i, (i + 3) % 4, (int)tag), made);
        counts(&r[(i + 3) % 4], at_window(i, (i + 3) % 4, (int)tag), made);
    }
}

/* All but `rank` are in a barrier that it has not entered; it waits for what `other` did not call. */
static void waits_at_window(sl_hang_rank *r, int rank, const char *call, sl_channel_key key,
                            uint64_t number) {
    for (int i = 0; i < 4; i++) {
        if (i == rank)
            continue;
        r[i].channel[0].announced = 10;
        waits(&r[i], "MPI_Barrier", collective(WORLD), 10);
    }
    waits(&r[rank], call, key, number);
}

static sl_hang_channel *of(sl_hang_rank *r, int rank, sl_channel_key key) {
    for (size_t i = 0; i < r[rank].channels; i++)
        if (sl_channel_key_same(&r[rank].channel[i].key, &key))
            return &r[rank].channel[i];
    fail();
    return NULL;
}

static void a_rank_that_left_out_its_post_is_named(void **state) {
    (void)state;
    sl_hang_rank r[4];
    ring(r, SL_WINDOW_POST, 7);
    of(r, 2, at_window(2, 1, SL_WINDOW_POST))->announced = 6;
    waits_at_window(r, 1, "MPI_Win_start", at_window(2, 1, SL_WINDOW_POST), 7);
    sl_hang_verdict v = diagnosed(r, 4);
    assert_int_equal(v.cause, SL_HANG_WINDOW);
    assert_int_equal(v.certain, 1);
    assert_int_equal(v.rank, 2);
    assert_int_equal(v.peer, 1);
    assert_says(v.seen, "2 MPI_Win_post 1 2 7 1");
    assert_says(v.why, "1 MPI_Win_start 2 MPI_Win_post");
}

static void a_rank_that_left_out_its_complete_is_named(void **state) {
    (void)state;
    sl_hang_rank r[4];
    ring(r, SL_WINDOW_COMPLETE, 7);
    of(r, 2, at_window(2, 1, SL_WINDOW_COMPLETE))->announced = 6;
    waits_at_window(r, 1, "MPI_Win_wait", at_window(2, 1, SL_WINDOW_COMPLETE), 7);
    sl_hang_verdict v = diagnosed(r, 4);
    assert_int_equal(v.cause, SL_HANG_WINDOW);
    assert_int_equal(v.rank, 2);
    assert_says(v.seen, "2 MPI_Win_complete 1");
}

/* Nobody has posted as often as it asks for: it is in the next iteration. */
static void a_rank_that_left_out_the_barrier_is_named(void **state) {
    (void)state;
    sl_hang_rank r[4];
    ring(r, SL_WINDOW_POST, 7);
    waits_at_window(r, 1, "MPI_Win_start", at_window(2, 1, SL_WINDOW_POST), 8);
    sl_hang_verdict v = diagnosed(r, 4);
    assert_int_equal(v.cause, SL_HANG_MISSING);
    assert_int_equal(v.rank, 1);
    assert_says(v.seen, "1 0,2,3 MPI_Barrier 2 MPI_Win_post 8");
}

/* With two ranks, no third shows which of both is wrong. */
static void two_ranks_are_both_named(void **state) {
    (void)state;
    sl_hang_rank r[2] = {blank(0), blank(1)};
    const sl_channel_key post = at_window(1, 0, SL_WINDOW_POST);
    counts(&r[0], collective(WORLD), 9);
    counts(&r[1], collective(WORLD), 10);
    counts(&r[0], post, 7);
    counts(&r[1], post, 6);
    waits(&r[0], "MPI_Win_start", post, 7);
    waits(&r[1], "MPI_Barrier", collective(WORLD), 10);
    sl_hang_verdict v = diagnosed(r, 2);
    assert_int_equal(v.cause, SL_HANG_WINDOW);
    assert_int_equal(v.certain, 1);
    assert_int_equal(v.rank, -1);
    assert_says(v.seen, "1 MPI_Barrier 0 1 MPI_Win_post");
}

static void a_rank_that_computes_before_its_post_only_stalls(void **state) {
    (void)state;
    sl_hang_rank r[4];
    ring(r, SL_WINDOW_POST, 7);
    of(r, 2, at_window(2, 1, SL_WINDOW_POST))->announced = 6;
    waits_at_window(r, 1, "MPI_Win_start", at_window(2, 1, SL_WINDOW_POST), 7);
    r[2].channel[0].announced = 9;
    sl_free(r[2].thread[0].wait);
    r[2].threads = 0;
    computes(&r[2]);
    sl_hang_verdict v = diagnosed(r, 4);
    assert_int_equal(v.cause, SL_HANG_AWAY);
    assert_int_equal(v.certain, 0);
    assert_int_equal(v.rank, 2);
}

/* Rank 0 waits for the lock on rank 3's window, which rank 1 holds; all others wait for rank 0. */
static void locked(sl_hang_rank *r, sl_window_lock held, sl_window_lock asked) {
    ring(r, SL_WINDOW_POST, 7);
    counts(&r[1], at_window(1, 3, SL_WINDOW_LOCK), 8 + (uint64_t)held);
    counts(&r[2], at_window(2, 3, SL_WINDOW_LOCK), 8); /* it has released its own */
    counts(&r[2], at_window(2, 1, SL_WINDOW_LOCK), 2); /* and holds another window's */
    waits_at_window(r, 0, "MPI_Win_lock", at_window(0, 3, SL_WINDOW_LOCK), 4 + (uint64_t)asked);
    r[0].thread[0].peer = 3;
}

static void a_holder_that_waits_for_the_waiter_is_named(void **state) {
    (void)state;
    sl_hang_rank r[4];
    const sl_window_lock held[] = {SL_LOCK_EXCLUSIVE, SL_LOCK_EXCLUSIVE, SL_LOCK_SHARED};
    const sl_window_lock asked[] = {SL_LOCK_EXCLUSIVE, SL_LOCK_SHARED, SL_LOCK_EXCLUSIVE};
    for (int i = 0; i < 3; i++) {
        locked(r, held[i], asked[i]);
        sl_hang_verdict v = diagnosed(r, 4);
        assert_int_equal(v.cause, SL_HANG_LOCK);
        assert_int_equal(v.certain, 1);
        assert_int_equal(v.rank, 1);
        assert_says(v.seen, "1 0 lock 3");
    }
}

static void shared_locks_exclude_nobody(void **state) {
    (void)state;
    sl_hang_rank r[4];
    locked(r, SL_LOCK_SHARED, SL_LOCK_SHARED);
    sl_hang_verdict v = diagnosed(r, 4);
    assert_int_equal(v.certain, 0);
    assert_int_not_equal(v.rank, 1);
}

static void a_holder_that_computes_only_stalls(void **state) {
    (void)state;
    sl_hang_rank r[4];
    locked(r, SL_LOCK_EXCLUSIVE, SL_LOCK_EXCLUSIVE);
    sl_free(r[1].thread[0].wait);
    r[1].threads = 0;
    computes(&r[1]);
    sl_hang_verdict v = diagnosed(r, 4);
    assert_int_equal(v.cause, SL_HANG_AWAY);
    assert_int_equal(v.rank, 1);
    assert_says(v.seen, "1 lock 0 lock 3");
}

static void locks_in_different_order_have_no_culprit(void **state) {
    (void)state;
    sl_hang_rank r[2] = {blank(0), blank(1)};
    for (int i = 0; i < 2; i++) {
        counts(&r[i], collective(WORLD), 9);
        counts(&r[i], at_window(i, i, SL_WINDOW_LOCK), SL_LOCK_EXCLUSIVE);
        counts(&r[i], at_window(i, 1 - i, SL_WINDOW_LOCK), 0);
        waits(&r[i], "MPI_Win_lock", at_window(i, 1 - i, SL_WINDOW_LOCK), SL_LOCK_EXCLUSIVE);
    }
    sl_hang_verdict v = diagnosed(r, 2);
    assert_int_equal(v.cause, SL_HANG_CIRCLE);
    assert_int_equal(v.rank, -1);
}

/* A library that moves data only while the target is in a call. */
static void a_target_in_no_call_is_awaited(void **state) {
    (void)state;
    sl_hang_rank r[4];
    ring(r, SL_WINDOW_POST, 7);
    waits_at_window(r, 0, "MPI_Win_flush", at_window(0, 3, SL_WINDOW_POST), 0);
    r[0].thread[0].waits = 0;
    r[0].thread[0].peer = 3;
    r[3].channel[0].announced = 9;
    sl_free(r[3].thread[0].wait);
    r[3].threads = 0;
    computes(&r[3]);
    sl_hang_verdict v = diagnosed(r, 4);
    assert_int_equal(v.cause, SL_HANG_AWAY);
    assert_int_equal(v.rank, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_left_out_its_post_is_named),
        cmocka_unit_test(a_rank_that_left_out_its_complete_is_named),
        cmocka_unit_test(a_rank_that_left_out_the_barrier_is_named),
        cmocka_unit_test(two_ranks_are_both_named),
        cmocka_unit_test(a_rank_that_computes_before_its_post_only_stalls),
        cmocka_unit_test(a_holder_that_waits_for_the_waiter_is_named),
        cmocka_unit_test(shared_locks_exclude_nobody),
        cmocka_unit_test(a_holder_that_computes_only_stalls),
        cmocka_unit_test(locks_in_different_order_have_no_culprit),
        cmocka_unit_test(a_target_in_no_call_is_awaited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
