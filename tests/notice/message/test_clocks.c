/* How far clocks of nodes are apart, asked through a real server. */
#include "base/file.h"
#include "check.h"
#include "launch/redis.h"
#include "notice/message/clocks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct server {
    char folder[64], url[512];
    sl_redis redis;
} server;

static int start(void **state) {
    char redis_path[PATH_MAX];
    if (sl_redis_find(redis_path) != SL_OK) {
        printf("skipped: %s\n", sl_error_text());
        exit(77);
    }
    server *s = calloc(1, sizeof *s);
    snprintf(s->folder, sizeof s->folder, "/tmp/slackline-clocks-test-XXXXXX");
    assert_non_null(mkdtemp(s->folder));
    assert_ok(sl_redis_start(s->folder, NULL, &s->redis));
    assert_ok(sl_redis_wait(&s->redis, 10 * SL_SECOND));
    sl_redis_url(&s->redis, "127.0.0.1", s->url, sizeof s->url);
    *state = s;
    return 0;
}

static int stop(void **state) {
    server *s = *state;
    sl_redis_stop(&s->redis);
    sl_path_remove(s->folder);
    free(s);
    return 0;
}

static void *answer(void *store) {
    return sl_clock_answer(store, "node", 5) == SL_OK ? store : NULL;
}

static void offset_of_a_clock_is_zero_to_itself_within_its_error(void **state) {
    server *s = *state;
    sl_store *ours, *theirs;
    sl_offset offset = {0};
    pthread_t thread;
    void *fine;
    assert_ok(sl_store_open(s->url, "job", 0, &ours));
    assert_ok(sl_store_open(s->url, "job", 0, &theirs));
    assert_int_equal(pthread_create(&thread, NULL, answer, theirs), 0);
    assert_ok(sl_clock_ask(ours, "node", 5, &offset));
    pthread_join(thread, &fine);
    assert_non_null(fine);
    assert_int_equal(offset.trips, SL_CLOCK_TRIPS);
    assert_true(offset.error > 0);
    if (llabs(offset.offset) > offset.error)
        fail_msg("offset %lld, error %lld", (long long)offset.offset, (long long)offset.error);
    char identity[160];
    sl_clock_identity(identity, sizeof identity);
    assert_true(strlen(identity) > 30);
    /* nobody answers: no estimate, and no error */
    offset = (sl_offset){0};
    assert_ok(sl_clock_ask(ours, "nobody", 6, &offset));
    assert_int_equal(offset.trips, 0);
    sl_store_close(ours);
    sl_store_close(theirs);
}

/* Times that no clock shows are no answers; their difference would overflow. */
static void absurd_times_are_no_answers(void **state) {
    server *s = *state;
    sl_store *ours;
    sl_offset offset = {0};
    const int64_t absurd[][3] = {{7, 0, INT64_MIN}, {7, 0, -1}, {7, 0, INT64_MAX}};
    assert_ok(sl_store_open(s->url, "job", 0, &ours));
    for (int i = 0; i < 3; i++)
        assert_ok(sl_store_append(ours, "clock-answered:odd", absurd[i], sizeof absurd[i], 64));
    assert_ok(sl_clock_ask(ours, "odd", 7, &offset));
    assert_int_equal(offset.trips, 0);
    sl_store_close(ours);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(offset_of_a_clock_is_zero_to_itself_within_its_error, start, stop),
        cmocka_unit_test_setup_teardown(absurd_times_are_no_answers, start, stop),
    };
    cmocka_set_test_filter(getenv("SL_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
