/* A server of a run's own: it dies with its parent, and its absence is said. */
#include "base/clock.h"
#include "base/file.h"
#include "check.h"
#include "launch/redis.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void need_server(void) {
    char redis_path[PATH_MAX];
    if (sl_redis_find(redis_path) != SL_OK) {
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
        if (sl_redis_start(folder, NULL, &redis) != SL_OK || sl_redis_wait(&redis, 10 * SL_SECOND) != SL_OK)
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
    sl_status status = sl_redis_start("/tmp", NULL, &redis);
    setenv("PATH", before, 1);
    assert_int_equal(status, SL_ENONE);
    assert_says(sl_error_text(), "redis-server is not installed");
    assert_says(sl_error_text(), "--redis");
}

static void a_server_that_cannot_start_gives_its_reason(void **state) {
    (void)state;
    need_server();
    sl_redis redis;
    assert_ok(sl_redis_start("/nonexistent", NULL, &redis));
    assert_int_equal(sl_redis_wait(&redis, 10 * SL_SECOND), SL_ESYS);
    assert_says(sl_error_text(), "redis-server ended at its start");
    sl_redis_stop(&redis);
}

static void a_path_that_no_socket_can_have_is_refused(void **state) {
    (void)state;
    need_server();
    char folder[200];
    memset(folder, 'x', sizeof folder - 1);
    folder[0] = '/', folder[sizeof folder - 1] = 0;
    sl_redis redis;
    assert_int_equal(sl_redis_start(folder, NULL, &redis), SL_EINVAL);
}

/* One inline request on a connection of its own, and the first line of its answer. */
static void ask(const sl_redis *redis, const char *request, char *line, size_t size) {
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    size_t used = 0;
    memcpy(local.sun_path, redis->path, sizeof redis->path);
    int file = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(file, (struct sockaddr *)&local, sizeof local), 0);
    assert_int_equal(write(file, request, strlen(request)), strlen(request));
    assert_int_equal(write(file, "\r\n", 2), 2);
    while (used + 1 < size && read(file, line + used, 1) == 1 && line[used] != '\n')
        used++;
    line[used] = 0;
    close(file);
}

static void a_client_can_do_what_the_store_does_and_nothing_else(void **state) {
    (void)state;
    need_server();
    static const char *const refused[] = {"CONFIG GET dir",
                                          "CONFIG SET dir /tmp",
                                          "MODULE LIST",
                                          "DEBUG SLEEP 0",
                                          "SAVE",
                                          "BGSAVE",
                                          "BGREWRITEAOF",
                                          "SHUTDOWN NOSAVE",
                                          "FLUSHALL",
                                          "FLUSHDB",
                                          "REPLICAOF 127.0.0.1 1",
                                          "SLAVEOF 127.0.0.1 1",
                                          "MIGRATE 127.0.0.1 1 key 0 1",
                                          "ACL LIST",
                                          "ACL SETUSER default +@all",
                                          "EVAL return 0",
                                          "SCRIPT FLUSH",
                                          "FUNCTION LIST",
                                          "CLIENT LIST",
                                          "MONITOR",
                                          "KEYS *",
                                          "SUBSCRIBE all",
                                          "GET other",
                                          "SET other value"};
    static const char *const allowed[] = {"SET slackline:job:key value PX 1000 NX",
                                          "GET slackline:job:key",
                                          "DEL slackline:job:key",
                                          "SCAN 0 MATCH slackline:*",
                                          "XADD slackline:job:log MAXLEN ~ 10 * b value",
                                          "XREAD COUNT 1 STREAMS slackline:job:log 0-0"};
    char folder[] = "/tmp/slackline-redis-XXXXXX", line[512];
    sl_redis redis;
    assert_non_null(mkdtemp(folder));
    assert_ok(sl_redis_start(folder, NULL, &redis));
    assert_ok(sl_redis_wait(&redis, 10 * SL_SECOND));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ask(&redis, refused[i], line, sizeof line);
        if (strncmp(line, "-NOPERM", 7) != 0 && strncmp(line, "-ERR DEBUG command not allowed", 30) != 0)
            fail_msg("%s: %s", refused[i], line);
    }
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        ask(&redis, allowed[i], line, sizeof line);
        if (line[0] == '-' || line[0] == 0)
            fail_msg("%s: %s", allowed[i], line);
    }
    sl_redis_stop(&redis);
    sl_path_remove(folder);
}

/* Addresses of sockets that listen on `port`, as /proc/net/tcp writes them, in their order. */
static int listening(const char *table, int port, char address[8][40]) {
    int count = 0;
    char line[512], colon[16];
    FILE *file = fopen(table, "r");
    snprintf(colon, sizeof colon, ":%04X", (unsigned)port);
    while (file && fgets(line, sizeof line, file)) {
        char local[64], other[64], state[8];
        if (sscanf(line, " %*s %63s %63s %7s", local, other, state) == 3 && strcmp(state, "0A") == 0 &&
            strstr(local, colon) && count < 8)
            snprintf(address[count++], 40, "%.*s", (int)strcspn(local, ":"), local);
    }
    if (file)
        fclose(file);
    return count;
}

static void a_server_for_several_nodes_listens_on_the_addresses_it_was_given(void **state) {
    (void)state;
    need_server();
    char folder[] = "/tmp/slackline-redis-XXXXXX", address[8][40];
    sl_redis redis;
    assert_non_null(mkdtemp(folder));
    assert_ok(sl_redis_start(folder, "127.0.0.9 192.0.2.77", &redis)); /* the second is not this host's */
    assert_ok(sl_redis_wait(&redis, 10 * SL_SECOND));
    int count = listening("/proc/net/tcp", redis.port, address);
    assert_int_equal(count, 2);
    int first = strcmp(address[0], "0100007F") != 0;
    assert_string_equal(address[first], "0100007F");
    assert_string_equal(address[!first], "0900007F");
    assert_int_equal(listening("/proc/net/tcp6", redis.port, address), 0);
    assert_string_not_equal(redis.password, "");
    sl_redis_stop(&redis);
    sl_path_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_dies_with_the_process_that_started_it),
        cmocka_unit_test(a_missing_server_is_said_with_what_helps),
        cmocka_unit_test(a_server_that_cannot_start_gives_its_reason),
        cmocka_unit_test(a_client_can_do_what_the_store_does_and_nothing_else),
        cmocka_unit_test(a_server_for_several_nodes_listens_on_the_addresses_it_was_given),
        cmocka_unit_test(a_path_that_no_socket_can_have_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
