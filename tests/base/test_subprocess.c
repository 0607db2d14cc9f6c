/* The end of a child: waited for by pidfd and without one, and never for ever. */
#include "check.h"

#include "base/clock.h"
#include "base/subprocess.h"
#include "held.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* A child that runs `work` and exits with what that returns. */
static sl_subprocess start(int (*work)(void)) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(work());
    assert_true(pid > 0);
    return sl_subprocess_take(pid);
}

static int end_with_7(void) {
    return 7;
}

static int stay(void) {
    while (pause() == -1)
        ;
    return 0;
}

static int stay_stubborn(void) {
    signal(SIGTERM, SIG_IGN);
    return stay();
}

static sl_time now(void) {
    return sl_clock_now(sl_clock_real());
}

static int is_reaped(pid_t pid) {
    return waitpid(pid, NULL, WNOHANG) == -1 && errno == ECHILD;
}

/* ---- the same with a pidfd and without ---- */

static void forget_file(sl_subprocess *child) {
    if (child->file >= 0)
        close(child->file);
    child->file = -1;
}

static void its_exit_code_is_told(void **state) {
    for (int file = 0; file < 2; file++) {
        int status = 0;
        sl_subprocess child = start(end_with_7);
        pid_t pid = child.pid;
        if (!file)
            forget_file(&child);
        assert_int_equal(sl_subprocess_wait(&child, now() + 20 * SL_SECOND, &status), 1);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        assert_int_equal(child.pid, 0);
        assert_true(is_reaped(pid));
    }
    (void)state;
}

static void one_that_lives_on_is_not_waited_for_beyond_the_deadline(void **state) {
    for (int file = 0; file < 2; file++) {
        int status = 0;
        sl_subprocess child = start(stay);
        if (!file)
            forget_file(&child);
        assert_int_equal(sl_subprocess_await(&child, now() + 20 * SL_MS), 0);
        assert_int_equal(sl_subprocess_wait(&child, 0, &status), 0);
        assert_true(child.pid > 0);
        sl_subprocess_signal(&child, SIGUSR1);
        assert_int_equal(sl_subprocess_await(&child, now() + 20 * SL_SECOND), 1);
        assert_int_equal(sl_subprocess_wait(&child, 0, &status), 1); /* awaiting alone does not reap */
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    }
    (void)state;
}

static void ending_asks_first_and_kills_after_the_grace(void **state) {
    for (int file = 0; file < 2; file++) {
        int status[3];
        sl_subprocess child[3] = {start(stay), SL_SUBPROCESS_NONE, start(stay_stubborn)};
        for (int i = 0; i < 3 && !file; i++)
            forget_file(&child[i]);
        sl_clock_sleep_until(sl_clock_real(), now() + 50 * SL_MS); /* until it ignores the signal */
        assert_ok(sl_subprocess_end(
            child, 3,
            &(sl_subprocess_ending){.what = "one of three", .signal = SIGTERM, .grace = 100 * SL_MS},
            status));
        assert_true(WIFSIGNALED(status[0]) && WTERMSIG(status[0]) == SIGTERM);
        assert_int_equal(status[1], SL_SUBPROCESS_UNKNOWN);
        assert_true(WIFSIGNALED(status[2]) && WTERMSIG(status[2]) == SIGKILL);
    }
    (void)state;
}

static void one_that_had_ended_keeps_its_own_status(void **state) {
    (void)state;
    int status = 0;
    sl_subprocess child = start(end_with_7);
    assert_int_equal(sl_subprocess_await(&child, now() + 20 * SL_SECOND), 1);
    assert_ok(sl_subprocess_end(&child, 1, &(sl_subprocess_ending){.what = "it"}, &status));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* ---- its group ---- */

static int leave_one_in_the_group(void) {
    setpgid(0, 0);
    pid_t member = fork();
    if (member == 0)
        stay();
    return 0;
}

static void what_a_group_leader_left_is_killed_with_it(void **state) {
    (void)state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0); /* so that this process can see its end */
    sl_subprocess leader = start(leave_one_in_the_group);
    assert_int_equal(sl_subprocess_await(&leader, now() + 20 * SL_SECOND), 1);
    assert_ok(sl_subprocess_end(&leader, 1, &(sl_subprocess_ending){.what = "it", .group = 1}, NULL));
    int status;
    alarm(20);
    assert_true(waitpid(-1, &status, 0) > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    alarm(0);
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

/* ---- SIGKILL does not help ---- */

static void one_that_does_not_die_is_given_up_and_named(void **state) {
    (void)state;
    for (int file = 0; file < 2; file++) {
        sl_subprocess child = start(stay);
        pid_t pid = child.pid, tracer = hold(pid);
        if (tracer < 0) {
            sl_subprocess_end(&child, 1, &(sl_subprocess_ending){.what = "it"}, NULL);
            print_message("one process may not trace another here\n");
            skip();
        }
        char expected[96];
        snprintf(expected, sizeof expected,
                 "the prisoner (pid %d) remains: it has not ended 0.2 s after SIGKILL", (int)pid);
        if (!file)
            forget_file(&child);
        alarm(20);
        assert_fails(
            sl_subprocess_end(&child, 1,
                              &(sl_subprocess_ending){.what = "the prisoner", .patience = 200 * SL_MS}, NULL),
            SL_ESYS, expected);
        alarm(0);
        assert_int_equal(child.pid, 0);
        let_go(tracer);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
}

/* ---- other code reaps ---- */

static void an_ignored_SIGCHLD_hides_the_status_but_not_the_end(void **state) {
    (void)state;
    for (int file = 0; file < 2; file++) {
        int status = 0;
        signal(SIGCHLD, SIG_IGN);
        sl_subprocess child = start(stay);
        if (!file)
            forget_file(&child);
        alarm(20);
        assert_int_equal(sl_subprocess_await(&child, now() + 20 * SL_MS), 0);
        assert_ok(sl_subprocess_end(&child, 1, &(sl_subprocess_ending){.what = "it"}, &status));
        alarm(0);
        signal(SIGCHLD, SIG_DFL);
        assert_int_equal(status, SL_SUBPROCESS_UNKNOWN);
    }
}

/* ---- a kernel without pidfds ---- */

static int refuse_pidfds(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

/* In a process of its own: a filter stays for good. */
static int live_without_pidfds(void) {
    int status = 0;
    if (!refuse_pidfds())
        return 77;
    sl_subprocess child = start(stay);
    return child.file != -1 || sl_subprocess_wait(&child, now() + 10 * SL_MS, NULL) ||
           sl_subprocess_end(&child, 1, &(sl_subprocess_ending){.what = "it"}, &status) != SL_OK ||
           !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL;
}

static void an_old_kernel_does_as_well(void **state) {
    (void)state;
    int status = 0;
    sl_subprocess child = start(live_without_pidfds);
    assert_int_equal(sl_subprocess_wait(&child, now() + 60 * SL_SECOND, &status), 1);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("no system call can be filtered here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_exit_code_is_told),
        cmocka_unit_test(one_that_lives_on_is_not_waited_for_beyond_the_deadline),
        cmocka_unit_test(ending_asks_first_and_kills_after_the_grace),
        cmocka_unit_test(one_that_had_ended_keeps_its_own_status),
        cmocka_unit_test(what_a_group_leader_left_is_killed_with_it),
        cmocka_unit_test(one_that_does_not_die_is_given_up_and_named),
        cmocka_unit_test(an_ignored_SIGCHLD_hides_the_status_but_not_the_end),
        cmocka_unit_test(an_old_kernel_does_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
