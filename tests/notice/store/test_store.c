/* labels: long */
/* The store against a real server: a private one on a unix socket, and one on TCP with a password, killed and
 * started again in the middle. */
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "check.h"
#include "launch/redis.h"
#include "notice/store/store.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct server {
    char folder[64];
    int tcp;
    sl_redis redis;
    char url[512];
} server;

static sl_time now(void) {
    return sl_clock_now(sl_clock_real());
}

static void nap(sl_time time) {
    sl_clock_sleep_until(sl_clock_real(), now() + time);
}

static void start(server *s) {
    assert_ok(sl_redis_start(s->folder, s->tcp ? "" : NULL, &s->redis));
    assert_ok(sl_redis_wait(&s->redis, 10 * SL_SECOND));
    sl_redis_url(&s->redis, "127.0.0.1", s->url, sizeof s->url);
}

static int begin(void **state, int tcp) {
    char redis_path[PATH_MAX];
    if (sl_redis_find(redis_path) != SL_OK) {
        printf("skipped: %s\n", sl_error_text());
        exit(77);
    }
    server *s = calloc(1, sizeof *s);
    s->tcp = tcp;
    snprintf(s->folder, sizeof s->folder, "/tmp/slackline-store-XXXXXX");
    assert_non_null(mkdtemp(s->folder));
    start(s);
    *state = s;
    return 0;
}

static int on_socket(void **state) {
    return begin(state, 0);
}

static int on_tcp(void **state) {
    return begin(state, 1);
}

static int end(void **state) {
    server *s = *state;
    sl_redis_stop(&s->redis);
    sl_path_remove(s->folder);
    free(s);
    return 0;
}

static sl_store *open_store(const server *s) {
    sl_store *store;
    assert_ok(sl_store_open(s->url, "job", 0, &store));
    return store;
}

static void what_is_set_is_got_with_every_byte(void **state) {
    sl_store *store = open_store(*state);
    unsigned char all[70000];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (unsigned char)(i * 7 + i / 256);
    void *bytes;
    size_t size;
    assert_ok(sl_store_get(store, "nothing", &bytes, &size));
    assert_null(bytes);
    assert_ok(sl_store_set(store, "every byte", all, sizeof all, 0));
    assert_ok(sl_store_get(store, "every byte", &bytes, &size));
    assert_int_equal(size, sizeof all);
    assert_memory_equal(bytes, all, sizeof all);
    assert_int_equal(((char *)bytes)[size], 0);
    sl_free(bytes);
    assert_ok(sl_store_set(store, "every byte", "", 0, 0));
    assert_ok(sl_store_get(store, "every byte", &bytes, &size));
    assert_int_equal(size, 0);
    assert_string_equal(bytes, "");
    sl_free(bytes);
    assert_ok(sl_store_remove(store, "every byte"));
    assert_ok(sl_store_get(store, "every byte", &bytes, &size));
    assert_null(bytes);
    sl_store_close(store);
}

static void a_key_goes_after_its_time(void **state) {
    sl_store *store = open_store(*state);
    void *bytes;
    size_t size;
    assert_ok(sl_store_set(store, "short", "x", 1, 50 * SL_MS));
    sl_time limit = now() + 30 * SL_SECOND;
    do {
        nap(20 * SL_MS);
        assert_ok(sl_store_get(store, "short", &bytes, &size));
        sl_free(bytes);
    } while (bytes && now() < limit);
    assert_null(bytes);
    sl_store_close(store);
}

static void one_of_two_wins_an_election(void **state) {
    sl_store *a = open_store(*state), *b = open_store(*state);
    int won_a, won_b;
    assert_ok(sl_store_claim(a, "controller", "a", 1, 0, &won_a));
    assert_ok(sl_store_claim(b, "controller", "b", 1, 0, &won_b));
    assert_int_equal(won_a, 1);
    assert_int_equal(won_b, 0);
    assert_ok(sl_store_remove(a, "controller"));
    assert_ok(sl_store_claim(b, "controller", "b", 1, 60 * SL_SECOND, &won_b));
    assert_int_equal(won_b, 1);
    sl_store_close(a);
    sl_store_close(b);
}

static void jobs_that_share_a_server_do_not_see_each_other(void **state) {
    const server *s = *state;
    sl_store *a, *b;
    void *bytes;
    size_t size;
    assert_ok(sl_store_open(s->url, "a", 0, &a));
    assert_ok(sl_store_open(s->url, "b", 0, &b));
    assert_ok(sl_store_set(a, "key", "of a", 4, 0));
    assert_ok(sl_store_get(b, "key", &bytes, &size));
    assert_null(bytes);
    sl_store_close(a);
    sl_store_close(b);
}

static void a_job_that_is_forgotten_leaves_the_others(void **state) {
    const server *s = *state;
    sl_store *a, *b;
    void *bytes;
    size_t size, count;
    sl_store_position position = {""};
    const sl_store_entry *entry;
    assert_ok(sl_store_open(s->url, "a*", 0, &a)); /* a pattern, to whom it is one */
    assert_ok(sl_store_open(s->url, "ab", 0, &b));
    for (int i = 0; i < 3000; i++) {
        char key[32];
        snprintf(key, sizeof key, "key %d", i);
        assert_ok(sl_store_set(a, key, "1", 1, 0));
    }
    assert_ok(sl_store_append(a, "log", "1", 1, 10));
    assert_ok(sl_store_set(b, "key 7", "of b", 4, 0));
    assert_ok(sl_store_forget(a, "key 14"));
    assert_ok(sl_store_get(a, "key 14", &bytes, &size));
    assert_string_equal(bytes, "1");
    sl_free(bytes);
    assert_ok(sl_store_forget(a, NULL));
    for (int i = 0; i < 3000; i += 7) {
        char key[32];
        snprintf(key, sizeof key, "key %d", i);
        assert_ok(sl_store_get(a, key, &bytes, &size));
        assert_null(bytes);
    }
    assert_ok(sl_store_read(a, "log", &position, 10, 0, &entry, &count));
    assert_int_equal(count, 0);
    assert_ok(sl_store_get(b, "key 7", &bytes, &size));
    assert_string_equal(bytes, "of b");
    sl_free(bytes);
    sl_store_close(a);
    sl_store_close(b);
}

static void a_log_is_read_in_order_from_a_position_on(void **state) {
    sl_store *store = open_store(*state);
    sl_store_position position = {""};
    const sl_store_entry *entry;
    size_t count, seen = 0;
    assert_ok(sl_store_read(store, "log", &position, 10, 0, &entry, &count));
    assert_int_equal(count, 0);
    for (uint32_t i = 0; i < 25; i++)
        assert_ok(sl_store_append(store, "log", &i, sizeof i, 1000));
    do {
        assert_ok(sl_store_read(store, "log", &position, 10, 0, &entry, &count));
        assert_true(count <= 10);
        for (size_t i = 0; i < count; i++) {
            uint32_t number;
            assert_int_equal(entry[i].size, sizeof number);
            memcpy(&number, entry[i].bytes, sizeof number);
            assert_int_equal(number, seen++);
        }
    } while (count > 0);
    assert_int_equal(seen, 25);
    sl_store_close(store);
}

static void a_log_keeps_about_the_newest(void **state) {
    sl_store *store = open_store(*state);
    sl_store_position position = {""};
    const sl_store_entry *entry;
    size_t count;
    for (uint32_t i = 0; i < 2000; i++)
        assert_ok(sl_store_append(store, "long", &i, sizeof i, 500));
    assert_ok(sl_store_read(store, "long", &position, 5000, 0, &entry, &count));
    assert_in_range(count, 500, 800); /* Redis lets go of whole nodes of 100 */
    uint32_t last;
    memcpy(&last, entry[count - 1].bytes, sizeof last);
    assert_int_equal(last, 1999);
    sl_store_close(store);
}

static void *append_later(void *context) {
    sl_store *store = open_store(context);
    nap(100 * SL_MS);
    assert_ok(sl_store_append(store, "later", "now", 3, 10));
    sl_store_close(store);
    return NULL;
}

static void a_reader_waits_for_the_first_entry(void **state) {
    sl_store *store = open_store(*state);
    sl_store_position position = {""};
    const sl_store_entry *entry;
    size_t count;
    sl_time before = now();
    assert_ok(sl_store_read(store, "later", &position, 10, 30 * SL_MS, &entry, &count));
    assert_int_equal(count, 0);
    assert_true(now() - before >= 30 * SL_MS);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, append_later, *state), 0);
    assert_ok(sl_store_read(store, "later", &position, 10, 60 * SL_SECOND, &entry, &count));
    assert_int_equal(count, 1);
    assert_string_equal(entry[0].bytes, "now");
    pthread_join(writer, NULL);
    sl_store_close(store);
}

static void kill_server(server *s) {
    sl_redis_stop(&s->redis);
}

/* Promised is the patience; the machine gets as much again for what it does beside. */
static void must_fail_in_time(sl_status status, sl_time before, sl_time patience) {
    assert_int_equal(status, SL_EPEER);
    assert_true(now() - before < 2 * patience + SL_SECOND);
}

static void a_server_that_is_lost_makes_calls_fail_and_comes_back(void **state) {
    server *s = *state;
    sl_store *store = open_store(s);
    sl_store_position position = {""};
    const sl_store_entry *entry;
    size_t count;
    assert_ok(sl_store_append(store, "log", "1", 1, 100));
    assert_ok(sl_store_read(store, "log", &position, 10, 0, &entry, &count));
    assert_int_equal(count, 1);
    assert_true(sl_store_connected(store));
    kill_server(s);
    for (int i = 0; i < 5; i++) {
        must_fail_in_time(sl_store_append(store, "log", "x", 1, 100), now(), SL_SECOND);
        must_fail_in_time(sl_store_read(store, "log", &position, 10, 0, &entry, &count), now(), SL_SECOND);
        assert_int_equal(count, 0);
        assert_false(sl_store_connected(store));
    }
    assert_ok(sl_redis_restart(&s->redis));
    assert_ok(sl_redis_wait(&s->redis, 10 * SL_SECOND));
    sl_time limit = now() + 30 * SL_SECOND;
    while (sl_store_append(store, "log", "2", 1, 100) != SL_OK && now() < limit)
        nap(50 * SL_MS);
    assert_true(sl_store_connected(store));
    assert_ok(sl_store_read(store, "log", &position, 10, 0, &entry, &count));
    assert_int_equal(count, 1); /* nothing of before is left, and the position is still good */
    assert_string_equal(entry[0].bytes, "2");
    sl_store_close(store);
}

static void a_server_that_hangs_is_waited_for_no_longer_than_the_patience(void **state) {
    server *s = *state;
    sl_store *store;
    const sl_store_entry *entry;
    sl_store_position position = {""};
    size_t count;
    assert_ok(sl_store_open(s->url, "job", 200 * SL_MS, &store));
    assert_ok(sl_store_set(store, "a", "1", 1, 0));
    assert_int_equal(kill(s->redis.pid, SIGSTOP), 0);
    sl_time before = now();
    must_fail_in_time(sl_store_set(store, "a", "2", 1, 0), before, 200 * SL_MS);
    assert_true(now() - before >= 200 * SL_MS);
    must_fail_in_time(sl_store_read(store, "log", &position, 1, 0, &entry, &count), now(), 200 * SL_MS);
    nap(1100 * SL_MS); /* it may try again, and finds a socket that nobody serves */
    must_fail_in_time(sl_store_set(store, "a", "3", 1, 0), now(), 200 * SL_MS);
    assert_int_equal(kill(s->redis.pid, SIGCONT), 0);
    sl_time limit = now() + 30 * SL_SECOND;
    while (sl_store_set(store, "a", "4", 1, 0) != SL_OK && now() < limit)
        nap(50 * SL_MS);
    void *bytes;
    size_t size;
    assert_ok(
        sl_store_get(store, "a", &bytes, &size)); /* an answer that came late is not taken for this one's */
    assert_string_equal(bytes, "4");
    sl_free(bytes);
    sl_store_close(store);
}

static void a_wrong_password_is_an_error_that_does_not_show_it(void **state) {
    const server *s = *state;
    char url[256];
    sl_store *store;
    snprintf(url, sizeof url, "redis://:geheim@127.0.0.1:%d", s->redis.port);
    assert_ok(sl_store_open(url, "job", 0, &store));
    assert_int_equal(sl_store_set(store, "a", "1", 1, 0), SL_EPEER);
    assert_says(sl_error_text(), "WRONGPASS");
    assert_null(strstr(sl_error_text(), "geheim"));
    sl_store_close(store);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", s->redis.port);
    assert_ok(sl_store_open(url, "job", 0, &store));
    assert_int_equal(sl_store_set(store, "a", "1", 1, 0), SL_EPEER);
    assert_says(sl_error_text(), "NOAUTH");
    sl_store_close(store);
}

static void a_user_and_a_database_can_be_named(void **state) {
    const server *s = *state;
    char url[512];
    sl_store *store, *other;
    void *bytes;
    size_t size;
    snprintf(url, sizeof url, "redis://default:%s@127.0.0.1:%d/3", s->redis.password, s->redis.port);
    assert_ok(sl_store_open(url, "job", 0, &store));
    assert_ok(sl_store_set(store, "in three", "1", 1, 0));
    assert_ok(sl_store_open(s->url, "job", 0, &other));
    assert_ok(sl_store_get(other, "in three", &bytes, &size));
    assert_null(bytes);
    sl_store_close(store);
    sl_store_close(other);
}

static void no_list_of_processes_shows_the_password(void **state) {
    const server *s = *state;
    char path[64], *content;
    size_t size;
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)s->redis.pid);
    assert_ok(sl_file_read(path, &content, &size));
    assert_int_equal(strlen(s->redis.password), 32);
    for (size_t at = 0; at < size; at += strlen(content + at) + 1)
        assert_null(strstr(content + at, s->redis.password));
    sl_free(content);
}

static void nothing_is_written_to_disk(void **state) {
    const server *s = *state;
    sl_store *store = open_store(s);
    for (int i = 0; i < 200; i++)
        assert_ok(sl_store_append(store, "log", "x", 1, 1000));
    sl_store_close(store);
    char path[128];
    snprintf(path, sizeof path, "%s/dump.rdb", s->folder);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void wrong_urls_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"",
                                        "127.0.0.1:6379",
                                        "http://127.0.0.1",
                                        "unix:",
                                        "redis://",
                                        "redis://:6379",
                                        "redis://host:port",
                                        "redis://host:70000",
                                        "redis://host:0",
                                        "redis://user@host",
                                        "redis://:pass%zz@host",
                                        "redis://:pass%4@host",
                                        "redis://[::1",
                                        "redis://host/first",
                                        "redis://host:6379/-1"};
    sl_store *store;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sl_status status = sl_store_open(wrong[i], "job", 0, &store);
        if (status != SL_EINVAL)
            print_message("'%s' is taken\n", wrong[i]);
        assert_int_equal(status, SL_EINVAL);
    }
    static const char *const right[] = {"unix:/tmp/a", "unix:///tmp/a", "redis://host",
                                        "redis://:p%40ss@host:1/0", "redis://u:p@[::1]:7/15"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        assert_ok(sl_store_open(right[i], "job", 0, &store));
        sl_store_close(store);
    }
}

static void tls_is_refused_where_the_library_has_none(void **state) {
    (void)state;
    sl_store *store;
    sl_status status = sl_store_open("rediss://host", "job", 0, &store);
    if (status == SL_OK) {
        sl_store_close(store);
        print_message("skipped: this build has TLS\n");
        skip();
    }
    assert_int_equal(status, SL_EINVAL);
    assert_says(sl_error_text(), "TLS");
}

static void a_server_that_is_not_there_is_named(void **state) {
    (void)state;
    sl_store *store;
    assert_ok(sl_store_open("unix:/nonexistent/redis.sock", "job", 0, &store));
    assert_int_equal(sl_store_set(store, "a", "1", 1, 0), SL_EPEER);
    assert_says(sl_error_text(), "/nonexistent/redis.sock");
    sl_store_close(store);
}

#define WITH(test, server) cmocka_unit_test_setup_teardown(test, server, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(what_is_set_is_got_with_every_byte, on_socket),
        WITH(what_is_set_is_got_with_every_byte, on_tcp),
        WITH(a_key_goes_after_its_time, on_socket),
        WITH(one_of_two_wins_an_election, on_socket),
        WITH(jobs_that_share_a_server_do_not_see_each_other, on_socket),
        WITH(a_job_that_is_forgotten_leaves_the_others, on_socket),
        WITH(a_log_is_read_in_order_from_a_position_on, on_socket),
        WITH(a_log_keeps_about_the_newest, on_socket),
        WITH(a_reader_waits_for_the_first_entry, on_tcp),
        WITH(a_server_that_is_lost_makes_calls_fail_and_comes_back, on_socket),
        WITH(a_server_that_is_lost_makes_calls_fail_and_comes_back, on_tcp),
        WITH(a_server_that_hangs_is_waited_for_no_longer_than_the_patience, on_socket),
        WITH(a_server_that_hangs_is_waited_for_no_longer_than_the_patience, on_tcp),
        WITH(a_wrong_password_is_an_error_that_does_not_show_it, on_tcp),
        WITH(a_user_and_a_database_can_be_named, on_tcp),
        WITH(no_list_of_processes_shows_the_password, on_tcp),
        WITH(nothing_is_written_to_disk, on_socket),
        cmocka_unit_test(wrong_urls_are_refused),
        cmocka_unit_test(tls_is_refused_where_the_library_has_none),
        cmocka_unit_test(a_server_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
