/* The folder of a run: one living run at a time, and how far it has come, whoever was killed while writing.
 */
#include "base/file.h"
#include "base/memory.h"
#include "check.h"
#include "launch/run_folder.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct scene {
    char path[64];
    sl_launch_folder folder;
} scene;

static int set_up(void **state) {
    static scene s;
    strcpy(s.path, "/tmp/slackline-folder-XXXXXX");
    *state = &s;
    return mkdtemp(s.path) && sl_launch_folder_open(s.path, &s.folder) == SL_OK ? 0 : -1;
}

static int tear_down(void **state) {
    scene *s = *state;
    sl_launch_folder_close(&s->folder);
    return sl_path_remove(s->path) == SL_OK ? 0 : -1;
}

static void write_file(const scene *s, const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", s->path, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void a_second_one_is_refused_until_the_first_has_ended(void **state) {
    scene *s = *state;
    sl_launch_folder second;
    assert_int_equal(sl_launch_folder_open(s->path, &second), SL_ENONE);
    assert_says(sl_error_text(), "another run is using this directory");
    sl_launch_folder_close(&second);
    sl_launch_folder_close(&s->folder);
    assert_int_equal(sl_launch_folder_open(s->path, &s->folder), SL_OK);
}

static void one_whose_holder_was_killed_is_taken(void **state) {
    scene *s = *state;
    int ready[2];
    sl_launch_folder_close(&s->folder);
    assert_int_equal(pipe(ready), 0);
    pid_t holder = fork();
    if (holder == 0) {
        sl_launch_folder held;
        char ok = sl_launch_folder_open(s->path, &held) == SL_OK;
        (void)!write(ready[1], &ok, 1);
        pause();
        _exit(0);
    }
    char ok = 0;
    assert_int_equal(read(ready[0], &ok, 1), 1);
    assert_true(ok);
    close(ready[0]);
    close(ready[1]);
    kill(holder, SIGKILL); /* not waited for: opening waits a moment */
    assert_int_equal(sl_launch_folder_open(s->path, &s->folder), SL_OK);
    waitpid(holder, NULL, 0);
}

static int reached(const scene *s, const char *metrics) {
    write_file(s, "metrics.jsonl", metrics);
    return sl_launch_folder_reached(&s->folder).iteration;
}

static void the_last_whole_line_counts(void **state) {
    scene *s = *state;
    assert_int_equal(sl_launch_folder_reached(&s->folder).iteration, -1);
    assert_int_equal(reached(s, ""), -1);
    assert_int_equal(reached(s, "{\"iteration\":0}\n"), 0);
    assert_int_equal(reached(s, "{\"iteration\":6}\n{\"loss\":1.5,\"iteration\":7}\n"), 7);
    assert_int_equal(reached(s, "{\"iteration\":6}\n{\"iteration\":7,\"los"), 6);
    assert_int_equal(reached(s, "{\"iteration\":7,\"los"), -1);
    assert_int_equal(reached(s, "no json\n"), -1);
    char *long_file = malloc(300001); /* the line lies behind what is read at once */
    assert_non_null(long_file);
    memset(long_file, ' ', 300000);
    strcpy(long_file + 299900, "\n{\"iteration\":12}\n");
    assert_int_equal(reached(s, long_file), 12);
    free(long_file);
}

static void an_event_goes_behind_the_last_whole_line(void **state) {
    scene *s = *state;
    sl_event event = {
        .kind = SL_EVENT_RESTART, .iteration = 3, .from = -1, .to = -1, .rank = -1, .why = "why"};
    write_file(s, "events.jsonl", "{\"kind\":\"start\"}\n{\"kind\":\"on");
    assert_int_equal(sl_launch_folder_event(&s->folder, &event), SL_OK);
    assert_int_equal(sl_launch_folder_event(&s->folder, &event), SL_OK);
    char path[128], *text;
    size_t size;
    snprintf(path, sizeof path, "%s/events.jsonl", s->path);
    assert_int_equal(sl_file_read(path, &text, &size), SL_OK);
    const char *line = "{\"time_s\":0.0,\"iteration\":3,\"kind\":\"restart\",\"why\":\"why\"}\n";
    char expected[300];
    snprintf(expected, sizeof expected, "{\"kind\":\"start\"}\n%s%s", line, line);
    assert_string_equal(text, expected);
    sl_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_second_one_is_refused_until_the_first_has_ended, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_whose_holder_was_killed_is_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_last_whole_line_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_event_goes_behind_the_last_whole_line, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
