/* An iteration of a profile, call by call: its window is from a call of the lowest rank in the middle, calls are cut
 * at its ends, and only so many ranks are in it. */
#include "check.h"

#include "notice/control/call_excerpt.h"

static sl_call call_of(int rank, int call, int64_t start, int64_t end) {
    return (sl_call){.kind = SL_RECORD_CALL, .call = (uint8_t)call, .rank = rank, .start = start, .end = end};
}

/* Two ranks, iterations of 100 ns from 1000 on: rank 0 computes 60 and is in an allreduce for 40, rank 1 the other
 * way round. */
static void a_window_is_one_iteration_from_a_call_of_the_first_rank(void **state) {
    (void)state;
    sl_call_excerpt e = {0};
    sl_call call[20];
    for (int i = 0; i < 10; i++) {
        call[2 * i] = call_of(1, SL_CALL_MPI_Allreduce, 1040 + 100 * i, 1100 + 100 * i);
        call[2 * i + 1] = call_of(0, SL_CALL_MPI_Allreduce, 1060 + 100 * i, 1100 + 100 * i);
    }
    assert_ok(sl_call_excerpt_take(&e, call, 20, 100, 7, 1));
    /* from 1040 to 2000; the middle is 1520, and the nearest call of rank 0 begins at 1560 */
    assert_int_equal(e.calls, 3);
    assert_int_equal(e.call[0].rank, 1); /* in its allreduce since 1540: cut */
    assert_int_equal(e.call[0].start, 0);
    assert_int_equal(e.call[0].length, 40);
    assert_int_equal(e.call[1].rank, 0);
    assert_int_equal(e.call[1].length, 40);
    assert_int_equal(e.call[2].rank, 1); /* the next, from 1640 on, is cut at 1660 */
    assert_int_equal(e.call[2].start, 80);
    assert_int_equal(e.call[2].length, 20);
    assert_int_equal(e.iteration, 7);
    assert_true(e.slow);
    sl_call_excerpt_close(&e);
}

static void ranks_and_calls_beyond_the_bounds_are_counted(void **state) {
    (void)state;
    sl_call_excerpt e = {0};
    sl_call call[SL_EXCERPT_CALLS + 3];
    for (int i = 0; i < SL_EXCERPT_CALLS + 2; i++)
        call[i] = call_of(0, SL_CALL_MPI_Send, 10 + i, 11 + i);
    call[SL_EXCERPT_CALLS + 2] = call_of(SL_EXCERPT_RANKS, SL_CALL_MPI_Send, 1510, 1520);
    assert_ok(sl_call_excerpt_take(&e, call, SL_EXCERPT_CALLS + 3, 1 << 20, 1, 0));
    assert_true(e.calls > 0 && e.calls < SL_EXCERPT_CALLS);
    assert_int_equal(e.left_out, 1); /* the rank */
    for (int i = 0; i < SL_EXCERPT_CALLS + 2; i++)
        call[i] = call_of(0, SL_CALL_MPI_Send, 10, 11);
    assert_ok(sl_call_excerpt_take(&e, call, SL_EXCERPT_CALLS + 2, 100, 1, 0));
    assert_int_equal(e.calls, SL_EXCERPT_CALLS);
    assert_int_equal(e.left_out, 2);
    sl_call_excerpt_close(&e);
}

static void calls_without_times_leave_the_former_excerpt(void **state) {
    (void)state;
    sl_call_excerpt e = {0};
    const sl_call timed = call_of(0, SL_CALL_MPI_Send, 10, 20), untimed = call_of(0, SL_CALL_MPI_Send, 0, 0);
    assert_ok(sl_call_excerpt_take(&e, &untimed, 1, 100, 1, 0));
    assert_int_equal(e.calls, 0);
    assert_ok(sl_call_excerpt_take(&e, &timed, 1, 100, 2, 0));
    assert_ok(sl_call_excerpt_take(&e, &untimed, 1, 100, 3, 0));
    assert_int_equal(e.calls, 1);
    assert_int_equal(e.iteration, 2);
    sl_call_excerpt_close(&e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_is_one_iteration_from_a_call_of_the_first_rank),
        cmocka_unit_test(ranks_and_calls_beyond_the_bounds_are_counted),
        cmocka_unit_test(calls_without_times_leave_the_former_excerpt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
