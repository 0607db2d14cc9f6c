/* Several nodes find the server that the first rank starts, by the folder that they share. */
#include "base/build_id.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "check.h"
#include "notice/store/store.h"
#include "notice/watch/rendezvous.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static const sl_launch_position first = {.job = "job", .inside = 1, .rank = 0, .size = 4, .several = 1};
static const sl_launch_position other = {.job = "job", .inside = 1, .rank = 2, .size = 4, .several = 1};

static int make(void **state) {
    static char folder[64];
    char redis_path[PATH_MAX];
    if (sl_redis_find(redis_path) != SL_OK) {
        print_message("skipped: %s\n", sl_error_text());
        exit(77);
    }
    snprintf(folder, sizeof folder, "/tmp/slackline-rendezvous-XXXXXX");
    assert_non_null(mkdtemp(folder));
    *state = folder;
    return 0;
}

static int clear(void **state) {
    return sl_path_remove(*state) == SL_OK ? 0 : -1;
}

static void must_talk(const sl_rendezvous *a, const sl_rendezvous *b) {
    sl_store *here, *there;
    void *bytes;
    size_t size;
    assert_ok(sl_store_open(a->url, "job", 0, &here));
    assert_ok(sl_store_open(b->url, "job", 0, &there));
    assert_ok(sl_store_seal(here, a->key));
    assert_ok(sl_store_seal(there, b->key));
    assert_ok(sl_store_set(here, "key", "value", 5, 0));
    assert_ok(sl_store_get(there, "key", &bytes, &size));
    assert_string_equal(bytes, "value");
    sl_free(bytes);
    sl_store_close(here);
    sl_store_close(there);
}

typedef struct waiter {
    sl_rendezvous meeting;
    sl_status status;
} waiter;

static void *wait_for_url(void *context) {
    waiter *w = context;
    _Atomic uint32_t stop = 0;
    w->status = sl_rendezvous_wait(&w->meeting, 30 * SL_SECOND, &stop);
    return NULL;
}

static void a_node_that_comes_first_waits_for_the_url(void **state) {
    const char *folder = *state;
    char path[128];
    _Atomic uint32_t stop = 0;
    snprintf(path, sizeof path, "%s/redis.url", folder);
    assert_ok(sl_file_write(path, "job of yesterday\nredis://:x@127.0.0.1:1\n", 40)); /* is not this job's */
    waiter second = {.status = SL_ESYS};
    sl_rendezvous server;
    pthread_t thread;
    assert_ok(sl_rendezvous_open(&second.meeting, &other, folder, folder, NULL, NULL));
    assert_string_equal(second.meeting.url, "");
    assert_int_equal(pthread_create(&thread, NULL, wait_for_url, &second), 0);
    sl_clock_sleep_until(sl_clock_real(), sl_clock_now(sl_clock_real()) + 200 * SL_MS);
    assert_ok(sl_rendezvous_open(&server, &first, folder, folder, NULL, NULL));
    assert_ok(sl_rendezvous_wait(&server, 30 * SL_SECOND, &stop));
    pthread_join(thread, NULL);
    assert_int_equal(second.status, SL_OK);
    must_talk(&server, &second.meeting);
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
    sl_rendezvous_close(&second.meeting);
    sl_rendezvous_close(&server);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void one_node_meets_on_a_socket_that_no_other_user_can_open(void **state) {
    const char *folder = *state;
    static const sl_launch_position alone = {.job = "job", .size = 1};
    _Atomic uint32_t stop = 0;
    sl_rendezvous r;
    assert_ok(sl_rendezvous_open(&r, &alone, folder, folder, NULL, NULL));
    assert_ok(sl_rendezvous_wait(&r, 30 * SL_SECOND, &stop));
    must_talk(&r, &r);
    struct stat found;
    assert_int_equal(stat(r.redis.path, &found), 0);
    assert_int_equal(found.st_mode & 077, 0);
    sl_rendezvous_close(&r);
}

static void a_url_and_a_key_that_are_given_are_taken(void **state) {
    const char *folder = *state;
    char path[128];
    _Atomic uint32_t stop = 0;
    sl_rendezvous r;
    assert_ok(sl_rendezvous_open(&r, &first, folder, folder, "redis://somewhere", "a-key-that-was-given"));
    assert_int_equal(r.redis.pid, 0);
    assert_ok(sl_rendezvous_wait(&r, SL_SECOND, &stop));
    assert_string_equal(r.url, "redis://somewhere");
    assert_string_equal(r.key, "a-key-that-was-given");
    snprintf(path, sizeof path, "%s/redis.url", folder);
    assert_int_not_equal(access(path, F_OK), 0); /* nobody needs it */
    sl_rendezvous_close(&r);
}

static void a_key_travels_by_the_folder_and_one_that_is_given_does_not(void **state) {
    const char *folder = *state;
    char path[128], *text;
    size_t size;
    struct stat found;
    _Atomic uint32_t stop = 0;
    sl_rendezvous a, b;
    snprintf(path, sizeof path, "%s/redis.url", folder);
    assert_ok(sl_rendezvous_open(&a, &first, folder, folder, "redis://somewhere", NULL));
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
    assert_ok(sl_rendezvous_open(&b, &other, folder, folder, "redis://somewhere", NULL));
    assert_string_equal(b.key, "");
    assert_ok(sl_rendezvous_wait(&b, SL_SECOND, &stop));
    assert_int_equal(strlen(a.key), 64);
    assert_string_equal(a.key, b.key);
    sl_rendezvous_close(&a);
    sl_rendezvous_close(&b);
    assert_ok(sl_rendezvous_open(&b, &other, folder, folder, "redis://somewhere", NULL));
    assert_fails(sl_rendezvous_wait(&b, 100 * SL_MS, &stop), SL_EPEER, "--key @FILE");
    sl_rendezvous_close(&b);
    assert_ok(sl_rendezvous_open(&a, &first, folder, folder, NULL, "a-key-that-was-given"));
    assert_ok(sl_file_read(path, &text, &size));
    assert_null(strstr(text, "a-key-that-was-given"));
    sl_free(text);
    sl_rendezvous_close(&a);
}

static void a_first_rank_of_another_version_is_named_with_both_hosts(void **state) {
    const char *folder = *state;
    char path[128], host[64] = "";
    static const char text[] = "job\nslackline 9.9.9 far-away\nkey 0123456789abcdef\nunix:/nonexistent\n";
    _Atomic uint32_t stop = 0;
    sl_rendezvous r;
    snprintf(path, sizeof path, "%s/redis.url", folder);
    assert_ok(sl_file_write(path, text, sizeof text - 1));
    assert_ok(sl_rendezvous_open(&r, &other, folder, folder, NULL, NULL));
    assert_fails(sl_rendezvous_wait(&r, 30 * SL_SECOND, &stop), SL_EPEER, "slackline 9.9.9 on host far-away");
    assert_non_null(strstr(sl_error_text(), sl_build_id()));
    gethostname(host, sizeof host - 1);
    assert_says(sl_error_text(), host);
    sl_rendezvous_close(&r);
}

static void waiting_in_vain_says_what_to_do(void **state) {
    const char *folder = *state;
    _Atomic uint32_t stop = 0;
    sl_rendezvous r;
    assert_ok(sl_rendezvous_open(&r, &other, folder, folder, NULL, NULL));
    assert_int_equal(sl_rendezvous_wait(&r, 100 * SL_MS, &stop), SL_EPEER);
    assert_says(sl_error_text(), "redis.url");
    assert_says(sl_error_text(), "--redis");
    stop = 1;
    sl_time before = sl_clock_now(sl_clock_real());
    assert_int_equal(sl_rendezvous_wait(&r, 3600 * SL_SECOND, &stop), SL_EPEER);
    assert_true(sl_clock_now(sl_clock_real()) - before < 60 * SL_SECOND);
    sl_rendezvous_close(&r);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, make, clear)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(a_node_that_comes_first_waits_for_the_url),
        WITH(one_node_meets_on_a_socket_that_no_other_user_can_open),
        WITH(a_url_and_a_key_that_are_given_are_taken),
        WITH(a_key_travels_by_the_folder_and_one_that_is_given_does_not),
        WITH(a_first_rank_of_another_version_is_named_with_both_hosts),
        WITH(waiting_in_vain_says_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
