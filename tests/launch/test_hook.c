/* A user's program that is run for events: what it is told, how its end is told, and that nothing that it
 * does holds anybody up or stays behind. Its scripts are real and run by this machine's sh. */
#include "check.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "launch/hook.h"
#include "launch/process.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENDS = 200 };

typedef struct world {
    char folder[64], script[96], log[96], out[96];
    sl_hook *hook;
    sl_hook_end end[ENDS];
    int ends;
} world;

static void on_end(void *context, const sl_hook_end *end) {
    world *w = context;
    assert_true(w->ends < ENDS);
    w->end[w->ends++] = *end;
}

static void write_script(world *w, const char *text) {
    FILE *out = fopen(w->script, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
    chmod(w->script, 0755);
}

static void open_world(world *w, const char *text, double limit) {
    memset(w, 0, sizeof *w);
    snprintf(w->folder, sizeof w->folder, "/tmp/slackline-hook-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    snprintf(w->script, sizeof w->script, "%s/hook", w->folder);
    snprintf(w->log, sizeof w->log, "%s/log", w->folder);
    snprintf(w->out, sizeof w->out, "%s/out", w->folder);
    if (text)
        write_script(w, text);
    setenv("OUT", w->out, 1);
    sl_hook_config config = {
        .program = w->script, .limit = (sl_time)(limit * 1e9), .log = w->log, .ended = on_end, .context = w};
    assert_ok(sl_hook_open(&config, &w->hook));
}

static void close_world(world *w) {
    sl_hook_close(w->hook);
    sl_path_remove(w->folder);
}

static void post(world *w, int64_t tag, const char *input) {
    const char *variables[] = {"SLACKLINE_EVENT=onset", "SLACKLINE_RANK=2"};
    assert_ok(sl_hook_post(w->hook, tag, "onset", input, variables, 2));
}

/* Steps as an event loop does, until so many runs have ended. */
static void run_until(world *w, int ends) {
    sl_time limit = sl_clock_now(sl_clock_real()) + 60 * SL_SECOND;
    struct pollfd ready = {.fd = sl_hook_file(w->hook), .events = POLLIN};
    while (w->ends < ends && sl_clock_now(sl_clock_real()) < limit) {
        poll(&ready, 1, 1000);
        sl_hook_step(w->hook);
    }
    assert_int_equal(w->ends, ends);
}

static char *text_of(const char *path) {
    char *text;
    size_t size;
    if (sl_file_read(path, &text, &size) != SL_OK)
        fail_msg("%s", sl_error_text());
    return text;
}

/* What hooks said. The log is written by a thread of its own: it is whole when the hook is closed. */
static char *log_of(world *w) {
    sl_hook_close(w->hook);
    w->hook = NULL;
    return text_of(w->log);
}

static void it_gets_the_event_on_its_input_and_in_its_environment(void **state) {
    (void)state;
    world w;
    open_world(&w, "#!/bin/sh\n{ cat; echo \" $SLACKLINE_EVENT $SLACKLINE_RANK $#\"; } > $OUT\necho spoken\n",
               20);
    post(&w, 7, "{\"kind\":\"onset\"}");
    run_until(&w, 1);
    assert_int_equal(w.end[0].tag, 7);
    assert_int_equal(w.end[0].result, SL_HOOK_DONE);
    assert_true(w.end[0].took > 0);
    char *out = text_of(w.out), *log = log_of(&w);
    assert_string_equal(out, "{\"kind\":\"onset\"} onset 2 0\n");
    assert_non_null(strstr(log, "spoken\n"));
    assert_non_null(strstr(log, "onset: exit 0"));
    sl_free(out);
    sl_free(log);
    close_world(&w);
}

/* The second of two must not begin before the first has ended. */
static void runs_are_one_at_a_time_and_in_order(void **state) {
    (void)state;
    world w;
    open_world(&w, "#!/bin/sh\nread n\necho begin $n >> $OUT\nsleep 0.05\necho end $n >> $OUT\n", 20);
    for (int i = 1; i <= 5; i++) {
        char input[8];
        snprintf(input, sizeof input, "%d\n", i);
        post(&w, i, input);
    }
    assert_int_equal(sl_hook_pending(w.hook), 5);
    run_until(&w, 5);
    char *out = text_of(w.out);
    assert_string_equal(out,
                        "begin 1\nend 1\nbegin 2\nend 2\nbegin 3\nend 3\nbegin 4\nend 4\nbegin 5\nend 5\n");
    sl_free(out);
    assert_int_equal(sl_hook_pending(w.hook), 0);
    close_world(&w);
}

static void its_exit_code_or_signal_is_told(void **state) {
    (void)state;
    static const struct {
        const char *script;
        sl_hook_result result;
        const char *said;
    } cases[] = {{"#!/bin/sh\nexit 0\n", SL_HOOK_DONE, "exit 0"},
                 {"#!/bin/sh\nexit 77\n", SL_HOOK_PASSED, "exit 77"},
                 {"#!/bin/sh\nexit 3\n", SL_HOOK_FAILED, "exit 3"},
                 {"#!/bin/sh\nkill -9 $$\n", SL_HOOK_FAILED, "signal 9"},
                 {"#!/bin/sh\nkill -11 $$\n", SL_HOOK_FAILED, "signal 11"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w;
        open_world(&w, cases[i].script, 20);
        post(&w, 1, "");
        run_until(&w, 1);
        assert_int_equal(w.end[0].result, cases[i].result);
        assert_says(w.end[0].said, cases[i].said);
        close_world(&w);
    }
}

static void what_cannot_be_run_is_told_and_the_next_is_tried(void **state) {
    (void)state;
    world w;
    open_world(&w, NULL, 20);
    assert_fails(sl_hook_look(w.script), SL_ENONE, "No such file");
    post(&w, 1, "");
    run_until(&w, 1);
    assert_int_equal(w.end[0].result, SL_HOOK_ABSENT);
    assert_says(w.end[0].said, "No such file");
    write_script(&w, "#!/bin/sh\nexit 0\n");
    chmod(w.script, 0644);
    if (geteuid() != 0 || access(w.script, X_OK) != 0) {
        post(&w, 2, "");
        run_until(&w, 2);
        assert_int_equal(w.end[1].result, SL_HOOK_ABSENT);
        assert_says(w.end[1].said, "Permission denied");
    } else {
        w.ends++;
    }
    write_script(&w, "echo no interpreter is named\n"); /* a shell would run it */
    post(&w, 3, "");
    run_until(&w, 3);
    assert_int_equal(w.end[2].result, SL_HOOK_ABSENT);
    assert_says(w.end[2].said, "Exec format error");
    write_script(&w, "#!/nowhere/sh\n");
    post(&w, 4, "");
    run_until(&w, 4);
    assert_int_equal(w.end[3].result, SL_HOOK_ABSENT);
    write_script(&w, "#!/bin/sh\nexit 0\n");
    post(&w, 5, "");
    run_until(&w, 5);
    assert_int_equal(w.end[4].result, SL_HOOK_DONE);
    assert_fails(sl_hook_look("/"), SL_ENONE, "cannot be run");
    assert_fails(sl_hook_look("no-such-program-anywhere"), SL_ENONE, "not in PATH");
    assert_ok(sl_hook_look("sh"));
    close_world(&w);
}

/* One child in the group, one in a session of its own with another parent, one that ignores SIGTERM. */
static void at_its_limit_it_ends_with_all_that_it_started(void **state) {
    (void)state;
    world w;
    open_world(
        &w,
        "#!/bin/sh\ntrap '' TERM\nsleep 300 &\n(setsid sh -c 'trap \"\" TERM; sleep 300; sleep 300' &)\n"
        "sleep 300\nsleep 300\n",
        0.3);
    post(&w, 1, "");
    post(&w, 2, "");
    for (int i = 0; i < 10;
         i++) /* it begins, and a mark of it is in the environment of this process's child */
        sl_hook_step(w.hook);
    run_until(&w, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(w.end[i].result, SL_HOOK_FAILED);
        assert_says(w.end[i].said, "longer than 0.3 s");
    }
    char mark[160];
    snprintf(mark, sizeof mark, "OUT=%s", w.out);
    assert_int_equal(sl_process_signal_marked(mark, 0), 0);
    close_world(&w);
}

static void closing_ends_what_runs_with_its_children(void **state) {
    (void)state;
    world w;
    open_world(&w, "#!/bin/sh\nsetsid sleep 300 &\ntouch $OUT\nsleep 300\n", 100);
    post(&w, 1, "");
    post(&w, 2, "");
    for (int i = 0; i < 2000 && access(w.out, F_OK) != 0; i++) {
        sl_hook_step(w.hook);
        sl_clock_sleep_until(sl_clock_real(), sl_clock_now(sl_clock_real()) + 5 * SL_MS);
    }
    assert_int_equal(access(w.out, F_OK), 0);
    char mark[160];
    snprintf(mark, sizeof mark, "OUT=%s", w.out);
    /* A process has no environment for a moment, while it becomes another program. */
    int marked = 0;
    for (int i = 0; i < 400 && (marked = sl_process_signal_marked(mark, 0)) < 2; i++)
        sl_clock_sleep_until(sl_clock_real(), sl_clock_now(sl_clock_real()) + 5 * SL_MS);
    assert_true(marked >= 2);
    close_world(&w);
    assert_int_equal(sl_process_signal_marked(mark, 0), 0);
    assert_int_equal(w.ends, 0);
}

/* 3 MB, of which 64 KiB are kept; then one that never ends, which only the limit ends. */
static void a_flood_of_output_is_cut(void **state) {
    (void)state;
    world w;
    struct stat info;
    open_world(&w, "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x\nexit 0\n", 50);
    post(&w, 1, "");
    run_until(&w, 1);
    assert_int_equal(w.end[0].result, SL_HOOK_DONE);
    char *log = log_of(&w);
    assert_int_equal(stat(w.log, &info), 0);
    assert_true(info.st_size >= SL_HOOK_LOGGED && info.st_size < SL_HOOK_LOGGED + 2000);
    sl_free(log);
    close_world(&w);
    open_world(&w, "#!/bin/sh\nexec yes\n", 0.5);
    post(&w, 1, "");
    run_until(&w, 1);
    assert_int_equal(w.end[0].result, SL_HOOK_FAILED);
    close_world(&w);
}

/* Who closes its output, or leaves a child that has it, ends all the same. */
static void its_output_does_not_decide_when_it_ends(void **state) {
    (void)state;
    world w;
    open_world(&w, "#!/bin/sh\nexec >&- 2>&-\nsleep 0.1\nexit 4\n", 50);
    post(&w, 1, "");
    run_until(&w, 1);
    assert_says(w.end[0].said, "exit 4");
    close_world(&w);
    open_world(&w, "#!/bin/sh\nsleep 3 &\necho $! > $OUT\nexit 0\n", 50);
    post(&w, 1, "");
    run_until(&w, 1);
    assert_int_equal(w.end[0].result, SL_HOOK_DONE);
    char *child = text_of(w.out);
    assert_int_equal(kill(atoi(child), 0), 0); /* it was left running, and is not ours to end */
    kill(atoi(child), SIGKILL);
    sl_free(child);
    close_world(&w);
}

static void no_more_wait_than_there_is_room_for(void **state) {
    (void)state;
    world w;
    open_world(&w, "#!/bin/sh\nexit 0\n", 20);
    for (int i = 0; i < SL_HOOK_WAITING; i++)
        post(&w, i, "");
    assert_fails(sl_hook_post(w.hook, 99, "onset", "", NULL, 0), SL_ENONE, "wait for");
    run_until(&w, SL_HOOK_WAITING);
    assert_int_equal(w.end[SL_HOOK_WAITING - 1].tag, SL_HOOK_WAITING - 1);
    close_world(&w);
}

/* What would make it take part in the job around a watch. */
static void it_is_no_rank_of_the_job(void **state) {
    (void)state;
    world w;
    setenv("OMPI_COMM_WORLD_RANK", "3", 1);
    setenv("PMIX_RANK", "3", 1);
    open_world(&w, "#!/bin/sh\necho \"[$OMPI_COMM_WORLD_RANK$PMIX_RANK]\" > $OUT\n", 20);
    post(&w, 1, "");
    run_until(&w, 1);
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("PMIX_RANK");
    char *out = text_of(w.out);
    assert_string_equal(out, "[]\n");
    sl_free(out);
    close_world(&w);
}

static void a_wrong_request_is_refused(void **state) {
    (void)state;
    sl_hook *hook;
    sl_hook_config config = {.program = "", .limit = SL_SECOND};
    assert_fails(sl_hook_open(&config, &hook), SL_EINVAL, "needs a program");
    config = (sl_hook_config){.program = "sh", .limit = 0};
    assert_fails(sl_hook_open(&config, &hook), SL_EINVAL, "limit");
    sl_hook_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_gets_the_event_on_its_input_and_in_its_environment),
        cmocka_unit_test(runs_are_one_at_a_time_and_in_order),
        cmocka_unit_test(its_exit_code_or_signal_is_told),
        cmocka_unit_test(what_cannot_be_run_is_told_and_the_next_is_tried),
        cmocka_unit_test(at_its_limit_it_ends_with_all_that_it_started),
        cmocka_unit_test(closing_ends_what_runs_with_its_children),
        cmocka_unit_test(a_flood_of_output_is_cut),
        cmocka_unit_test(its_output_does_not_decide_when_it_ends),
        cmocka_unit_test(no_more_wait_than_there_is_room_for),
        cmocka_unit_test(it_is_no_rank_of_the_job),
        cmocka_unit_test(a_wrong_request_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
