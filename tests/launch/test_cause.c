/* What a run's supervisor says when mpirun itself names nobody (seen with 4.1.4 on a loaded machine). */
#include "check.h"

#include "base/file.h"
#include "launch/cause.h"
#include "launch/worker_error.h"

enum { EXITED_WITH_3 = 3 << 8, EXITED_WITH_4 = 4 << 8 };

static void a_rank_that_exits_is_named_when_mpirun_is_silent(void **state) {
    (void)state;
    char directory[] = "/tmp/slackline-cause-XXXXXX";
    assert_non_null(mkdtemp(directory));
    sl_mpirun_report silent = {.rank = -1};
    int exit_code = 0;
    sl_worker_exit_note(directory, 5, 4);
    sl_worker_exit_note(directory, 2, 3);
    assert_int_equal(sl_launch_cause(directory, directory, &silent, 1, EXITED_WITH_3, &exit_code), SL_EPEER);
    assert_says(sl_error_text(), "rank 2, exit code 3");
    assert_int_equal(exit_code, 1);
    sl_launch_cause(directory, directory, &silent, 1, EXITED_WITH_4, &exit_code);
    assert_says(sl_error_text(), "rank 5, exit code 4");
    sl_launch_cause(directory, directory, &silent, 1, 9 << 8, &exit_code);
    assert_says(sl_error_text(), "'mpirun' 9");
    assert_int_equal(sl_path_remove(directory), SL_OK);
}

static void words_of_a_worker_on_another_host_are_the_cause(void **state) {
    (void)state;
    char directory[] = "/tmp/slackline-cause-XXXXXX";
    assert_non_null(mkdtemp(directory));
    sl_mpirun_report report = {.rank = 3, .exit_code = 2};
    int exit_code = 0;
    assert_false(sl_worker_error_take(directory, "slackline: rank 3: something else"));
    assert_false(sl_worker_error_take(directory, "slackline-cause: 3 x words"));
    assert_true(sl_worker_error_take(directory, "slackline-cause: 3 1 data.txt:3: 'x' is wrong"));
    assert_int_equal(sl_launch_cause(directory, directory, &report, 1, 2 << 8, &exit_code), SL_EINVAL);
    assert_string_equal(sl_error_text(), "rank 3: data.txt:3: 'x' is wrong");
    assert_int_equal(exit_code, 2);
    assert_int_equal(sl_path_remove(directory), SL_OK);
}

/* mpirun names the rank that it saw end first, which has only lost a neighbor; the neighbor had a reason. */
static void a_consequence_is_not_the_cause_even_when_mpirun_names_its_rank(void **state) {
    (void)state;
    char directory[] = "/tmp/slackline-cause-XXXXXX";
    assert_non_null(mkdtemp(directory));
    sl_mpirun_report report = {.rank = 1, .exit_code = 1};
    int exit_code = 0;
    assert_ok(sl_worker_error_leave(directory, 1, SL_EPEER, "rank 2 is gone"));
    assert_int_equal(sl_launch_cause(directory, directory, &report, 1, 1 << 8, &exit_code), SL_EPEER);
    assert_string_equal(sl_error_text(), "rank 1: rank 2 is gone"); /* better than nothing */
    assert_ok(sl_worker_error_leave(directory, 2, SL_EINVAL, "data.txt: no text"));
    assert_int_equal(sl_launch_cause(directory, directory, &report, 1, 1 << 8, &exit_code), SL_EINVAL);
    assert_string_equal(sl_error_text(), "rank 2: data.txt: no text");
    assert_int_equal(exit_code, 2);
    report.signal = 9; /* nor when a signal has killed the rank that it names */
    assert_int_equal(sl_launch_cause(directory, directory, &report, 1, 1 << 8, &exit_code), SL_EPEER);
    assert_says(sl_error_text(), "rank 1, signal 9 (SIGKILL)");
    assert_int_equal(sl_path_remove(directory), SL_OK);
}

/* Of two causes, the one that came first. */
static void the_earlier_cause_is_named(void **state) {
    (void)state;
    char directory[] = "/tmp/slackline-cause-XXXXXX";
    assert_non_null(mkdtemp(directory));
    sl_mpirun_report silent = {.rank = -1};
    int exit_code = 0;
    assert_ok(sl_worker_error_leave(directory, 3, SL_EINVAL, "the first"));
    assert_ok(sl_worker_error_leave(directory, 0, SL_EINVAL, "the second"));
    sl_launch_cause(directory, directory, &silent, 1, 1 << 8, &exit_code);
    assert_string_equal(sl_error_text(), "rank 3: the first");
    assert_int_equal(sl_launch_cause(directory, directory, &silent, 1, 0, &exit_code), SL_OK);
    assert_int_equal(exit_code, 0);
    assert_int_equal(sl_path_remove(directory), SL_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_exits_is_named_when_mpirun_is_silent),
        cmocka_unit_test(words_of_a_worker_on_another_host_are_the_cause),
        cmocka_unit_test(a_consequence_is_not_the_cause_even_when_mpirun_names_its_rank),
        cmocka_unit_test(the_earlier_cause_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
