/* A server of a run's own: it dies with its parent, and its absence is said. */
#include "base/clock.h"
#include "base/file.h"
#include "check.h"
#include "launch/redis.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void need_server(void) {
    if (sl_redis_find() != SL_OK) {
        print_message("skipped: %s\n", sl_error_text());
        skip();
    }
}

static void a_server_dies_with_the_process_that_started_it(void **state) {
    (void)state;
    need_server();
    char folder[] = "/tmp/slackline-redis-XXXXXX";
    int tell[2];
    assert_non_null(mkdtemp(folder));
    assert_int_equal(pipe(tell), 0);
    pid_t parent = fork();
    if (parent == 0) {
        sl_redis redis;
        if (sl_redis_start(folder, 0, &redis) != SL_OK || sl_redis_wait(&redis, 10 * SL_SECOND) != SL_OK)
            _exit(1);
        (void)!write(tell[1], &redis.pid, sizeof redis.pid);
        pause();
    }
    pid_t server = 0;
    assert_int_equal(read(tell[0], &server, sizeof server), sizeof server);
    assert_int_equal(kill(server, 0), 0);
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    char path[64], *text = NULL;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)server);
    int living = 1;
    for (int i = 0; i < 500 && living; i++) { /* a zombie that nobody fetches has ended too */
        size_t size;
        living = sl_file_read(path, &text, &size) == SL_OK && !strstr(text, ") Z");
        free(text);
        text = NULL;
        if (living)
            usleep(20000);
    }
    assert_false(living);
    sl_path_remove(folder);
}

static void a_missing_server_is_said_with_what_helps(void **state) {
    (void)state;
    sl_redis redis;
    char before[4096];
    snprintf(before, sizeof before, "%s", getenv("PATH") ? getenv("PATH") : "");
    setenv("PATH", "/nonexistent", 1);
    sl_status status = sl_redis_start("/tmp", 0, &redis);
    setenv("PATH", before, 1);
    assert_int_equal(status, SL_ENONE);
    assert_non_null(strstr(sl_error_text(), "redis-server is not installed"));
    assert_non_null(strstr(sl_error_text(), "--redis"));
}

static void a_server_that_cannot_start_gives_its_reason(void **state) {
    (void)state;
    need_server();
    sl_redis redis;
    assert_ok(sl_redis_start("/nonexistent", 0, &redis));
    assert_int_equal(sl_redis_wait(&redis, 10 * SL_SECOND), SL_ESYS);
    assert_non_null(strstr(sl_error_text(), "redis-server ended at its start"));
    sl_redis_stop(&redis);
}

static void a_path_that_no_socket_can_have_is_refused(void **state) {
    (void)state;
    need_server();
    char folder[200];
    memset(folder, 'x', sizeof folder - 1);
    folder[0] = '/', folder[sizeof folder - 1] = 0;
    sl_redis redis;
    assert_int_equal(sl_redis_start(folder, 0, &redis), SL_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_dies_with_the_process_that_started_it),
        cmocka_unit_test(a_missing_server_is_said_with_what_helps),
        cmocka_unit_test(a_server_that_cannot_start_gives_its_reason),
        cmocka_unit_test(a_path_that_no_socket_can_have_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
