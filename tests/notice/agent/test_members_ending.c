/* The validating processes of an agent: one that does not even end by SIGKILL holds nobody up. */
#include "check.h"

#include "base/clock.h"
#include "held.h"
#include "notice/agent/members.h"

#include <fcntl.h>
#include <unistd.h>

/* This program is started again as `slackline healthcheck ...`. */
static int validate(void) {
    while (pause() == -1)
        ;
    return 0;
}

static const sl_member one = {
    .round = 3, .members = 1, .links = "", .store_url = "unix:/nowhere", .job = "job", .deadline_ms = 3000};

static sl_time now(void) {
    return sl_clock_now(sl_clock_real());
}

static void one_that_is_late_is_ended(void **state) {
    (void)state;
    sl_members m = {0};
    assert_ok(sl_members_start(&m, &one, now() + 50 * SL_MS));
    pid_t pid = m.child[0].pid;
    sl_members_look(&m, now());
    assert_int_equal(m.children, 1);
    sl_clock_sleep_until(sl_clock_real(), m.until);
    alarm(20);
    sl_members_look(&m, now());
    alarm(0);
    assert_int_equal(m.children, 0);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), -1); /* reaped */
    sl_members_close(&m);
}

static void one_that_cannot_be_ended_is_left_behind_in_one_line(void **state) {
    (void)state;
    sl_members m = {.patience = 200 * SL_MS};
    int told[2], kept = dup(STDERR_FILENO);
    char line[256] = "", expected[128];
    assert_ok(sl_members_start(&m, &one, now()));
    assert_ok(sl_members_start(&m, &one, now()));
    pid_t pid = m.child[0].pid, tracer = hold(pid);
    if (tracer < 0) {
        sl_members_close(&m);
        print_message("one process may not trace another here\n");
        skip();
    }
    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    dup2(told[1], STDERR_FILENO);
    alarm(20);
    sl_members_look(&m, now());
    alarm(0);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(told[1]);
    assert_true(read(told[0], line, sizeof line - 1) > 0);
    close(told[0]);
    snprintf(expected, sizeof expected,
             "slackline: a validating process (pid %d) remains: it has not ended 0.2 s after SIGKILL\n",
             (int)pid);
    assert_string_equal(line, expected);
    assert_int_equal(m.children, 0);
    let_go(tracer);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    sl_members_close(&m);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "healthcheck") == 0)
        return validate();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_late_is_ended),
        cmocka_unit_test(one_that_cannot_be_ended_is_left_behind_in_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
