/* Starting and ending a process with given files: a shell script that tells what it was given, and ends when
 * the test does. */
#include "check.h"

#include "base/clock.h"
#include "held.h"
#include "launch/delegate_launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The program: a script that tells what it was given on its file 4. */
static char script[64], directory[64];

static const char body[] =
    "#!/bin/bash\n"
    "exec 1>&4\n"
    "echo \"name $1 of $#\"\n"
    "echo \"run $SLACKLINE_RUN rank '$OMPI_COMM_WORLD_RANK$PMIX_RANK' kept $SL_KEPT\"\n"
    "echo \"null $(readlink /proc/$$/fd/0)\"\n"
    "echo \"third $(head -c 5 <&3)\"\n"
    "for f in /proc/$$/fd/*; do n=${f##*/}; [ $n -gt 4 -a $n -lt 250 -a -e $f ] && echo \"more $n\"; done\n"
    "[ \"$1\" = stubborn ] && trap '' HUP || trap 'exit 0' HUP\n"
    "echo ready\n"
    "while read -t 0.05 <&3 || [ $? -gt 128 ]; do :; done\n";

static int make_script(void **state) {
    (void)state;
    strcpy(directory, "/dev/shm/slackline-test.XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(script, sizeof script, "%s/program", directory);
    int file = open(script, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    if (file < 0 || write(file, body, sizeof body - 1) != sizeof body - 1)
        return -1;
    return close(file);
}

static int remove_script(void **state) {
    (void)state;
    return unlink(script) + rmdir(directory);
}

typedef struct child {
    sl_subprocess started;
    int data[2], words[2];
    char text[4096];
} child;

/* Starts it and reads until it says that it is ready. The files lie where the child's will be, crosswise. */
static void start(child *c, const sl_launch_delegates *launch, const char *name) {
    memset(c, 0, sizeof *c);
    assert_int_equal(pipe2(c->data, O_CLOEXEC), 0);
    assert_int_equal(pipe(c->words), 0); /* not closed on exec: must not get through all the same */
    assert_int_equal(write(c->data[1], "hello", 5), 5);
    int files[2] = {c->data[0], c->words[1]};
    assert_ok(sl_launch_delegate_start(launch, name, files, 2, &c->started));
    assert_true(c->started.pid > 0 && c->started.file >= 0);
    for (size_t size = 0; !strstr(c->text, "ready\n");) {
        struct pollfd some = {.fd = c->words[0], .events = POLLIN};
        assert_int_equal(poll(&some, 1, 20000), 1);
        ssize_t got = read(c->words[0], c->text + size, sizeof c->text - 1 - size);
        assert_true(got > 0);
        size += (size_t)got;
    }
}

static void finish(child *c) {
    for (int i = 0; i < 2; i++) {
        close(c->data[i]);
        close(c->words[i]);
    }
}

static void says(const child *c, const char *words) {
    if (!strstr(c->text, words))
        fail_msg("'%s' is not in:\n%s", words, c->text);
}

static void a_delegate_gets_its_files_and_no_trace_of_a_rank(void **state) {
    (void)state;
    setenv("OMPI_COMM_WORLD_RANK", "3", 1);
    setenv("PMIX_RANK", "3", 1);
    setenv("SLACKLINE_RUN", "/another", 1);
    setenv("SL_KEPT", "yes", 1);
    sl_launch_delegates launch = {.program = script, .directory = directory};
    child c;
    char expected[128];
    start(&c, &launch, "0->1.0");
    says(&c, "name 0->1.0 of 3\n"); /* and which version starts it */
    snprintf(expected, sizeof expected, "run %s rank '' kept yes\n", directory);
    says(&c, expected);
    says(&c, "null /dev/null\n");
    says(&c, "third hello\n");
    if (strstr(c.text, "more"))
        fail_msg("files got through:\n%s", c.text);
    pid_t pid = c.started.pid;
    sl_launch_delegate_stop(&launch, &c.started, 1);
    assert_int_equal(c.started.pid, 0);
    assert_int_equal(c.started.file, -1);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), -1); /* reaped */
    finish(&c);
}

static void one_that_does_not_listen_is_killed_after_the_grace(void **state) {
    (void)state;
    sl_launch_delegates launch = {.program = script, .grace = 100 * SL_MS};
    child c[2];
    start(&c[0], &launch, "stubborn");
    start(&c[1], &launch, "tame");
    sl_subprocess all[3] = {c[0].started, {.pid = 0, .file = -1}, c[1].started};
    pid_t stubborn = all[0].pid, tame = all[2].pid;
    sl_time before = sl_clock_now(sl_clock_real());
    sl_launch_delegate_stop(&launch, all, 3);
    assert_true(sl_clock_now(sl_clock_real()) - before >= 100 * SL_MS); /* it was given its grace */
    assert_int_equal(kill(stubborn, 0), -1);
    assert_int_equal(kill(tame, 0), -1);
    finish(&c[0]);
    finish(&c[1]);
}

static void one_that_cannot_be_killed_is_left_behind_in_one_line(void **state) {
    (void)state;
    sl_launch_delegates launch = {.program = script, .grace = 50 * SL_MS, .patience = 200 * SL_MS};
    child c;
    int told[2], kept = dup(STDERR_FILENO);
    char line[256] = "", expected[128];
    start(&c, &launch, "stubborn");
    pid_t pid = c.started.pid, tracer = hold(pid);
    if (tracer < 0) {
        sl_launch_delegate_stop(&launch, &c.started, 1);
        finish(&c);
        print_message("one process may not trace another here\n");
        skip();
    }
    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    dup2(told[1], STDERR_FILENO);
    alarm(20);
    sl_launch_delegate_stop(&launch, &c.started, 1);
    alarm(0);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(told[1]);
    assert_true(read(told[0], line, sizeof line - 1) > 0);
    close(told[0]);
    snprintf(expected, sizeof expected, "'slackline: slackline-delegate (pid %d)' 0.2 SIGKILL", (int)pid);
    assert_says(line, expected);
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    assert_int_equal(c.started.pid, 0);
    let_go(tracer);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    finish(&c);
}

static void a_program_that_is_not_there_is_named(void **state) {
    (void)state;
    char missing[] = "/nonexistent/slackline-delegate";
    sl_launch_delegates launch = {.program = missing};
    sl_subprocess started = {.pid = 5};
    assert_fails(sl_launch_delegate_start(&launch, "x", NULL, 0, &started), SL_ESYS,
                 "/nonexistent/slackline-delegate cannot be started");
    assert_int_equal(started.pid, 0);
    int none = -1;
    launch.program = script;
    assert_int_equal(sl_launch_delegate_start(&launch, "x", &none, 1, &started), SL_ESYS);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child was left */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_delegate_gets_its_files_and_no_trace_of_a_rank),
        cmocka_unit_test(one_that_does_not_listen_is_killed_after_the_grace),
        cmocka_unit_test(one_that_cannot_be_killed_is_left_behind_in_one_line),
        cmocka_unit_test(a_program_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, make_script, remove_script);
}
