/* Meetings through a real store: all get everything, and all agree on who is absent. Members are threads with
 * a store each, as processes have. */
#include "base/clock.h"
#include "base/file.h"
#include "check.h"
#include "launch/redis.h"
#include "notice/validate/allgather.h"

#include <pthread.h>
#include <unistd.h>

#define MEMBERS 6
#define STEPS 30

static struct {
    char folder[64], url[512];
    sl_redis redis;
} server;

static int begin(void **state) {
    (void)state;
    char redis_path[PATH_MAX];
    if (sl_redis_find(redis_path) != SL_OK) {
        printf("skipped: %s\n", sl_error_text());
        exit(77);
    }
    snprintf(server.folder, sizeof server.folder, "/tmp/slackline-allgather-XXXXXX");
    assert_non_null(mkdtemp(server.folder));
    assert_ok(sl_redis_start(server.folder, NULL, &server.redis));
    assert_ok(sl_redis_wait(&server.redis, 10 * SL_SECOND));
    sl_redis_url(&server.redis, "127.0.0.1", server.url, sizeof server.url);
    return 0;
}

static int end(void **state) {
    (void)state;
    sl_redis_stop(&server.redis);
    return sl_path_remove(server.folder) == SL_OK ? 0 : -1;
}

typedef struct member {
    const char *round;
    int self;
    int leaves; /* before this step */
    int late;   /* comes to this step after the others' patience; -1: never late */
    sl_status status;
    char text[200];
    unsigned seen[STEPS]; /* members that were there, as bits */
    int wrong;            /* bytes that are not the sender's */
    int steps;
    int stop;
} member;

#define PATIENCE (SL_SECOND)

/* Of another size for each member and step, so that nothing fits by chance. */
static size_t words_of(int self, int step, char words[64]) {
    return (size_t)snprintf(words, 64, "member %d, step %d, %.*s", self, step, self, "abcdefgh");
}

static sl_status one_step(member *m, const sl_allgather *allgather, int step) {
    char words[64];
    sl_allgather_parts all = {0};
    size_t size = words_of(m->self, step, words);
    sl_status status = allgather->gather_all(allgather->context, words, size, PATIENCE, &all);
    for (int i = 0; status == SL_OK && i < MEMBERS; i++) {
        if (!all.part[i])
            continue;
        m->seen[step] |= 1u << i;
        size = words_of(i, step, words);
        m->wrong += all.size[i] != size || memcmp(all.part[i], words, size) != 0;
    }
    sl_allgather_parts_free(&all);
    return status;
}

static void *attend(void *argument) {
    member *m = argument;
    sl_store *store;
    sl_allgather allgather;
    m->status = sl_store_open(server.url, "job", SL_SECOND, &store);
    if (m->status != SL_OK)
        return NULL;
    m->status = sl_allgather_open_store(store, m->round, MEMBERS, m->self, &allgather);
    for (int step = 0; step < STEPS && m->status == SL_OK && step != m->leaves; step++) {
        if (step == m->late)
            sl_clock_sleep_until(sl_clock_real(), sl_clock_now(sl_clock_real()) + 2 * PATIENCE);
        m->status = one_step(m, &allgather, step);
        m->steps += m->status == SL_OK;
    }
    int stop = m->self == 3;
    if (m->status == SL_OK && m->leaves == STEPS) {
        m->status = sl_allgather_barrier(&allgather, PATIENCE, &stop);
        m->stop = stop;
    }
    snprintf(m->text, sizeof m->text, "%s", m->status == SL_OK ? "" : sl_error_text());
    allgather.close(allgather.context);
    sl_store_close(store);
    return NULL;
}

static void meet(member *all, const char *round) {
    pthread_t thread[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) {
        all[i].round = round;
        all[i].self = i;
        assert_int_equal(pthread_create(&thread[i], NULL, attend, &all[i]), 0);
    }
    for (int i = 0; i < MEMBERS; i++)
        pthread_join(thread[i], NULL);
}

static void all_get_everything_at_every_step(void **state) {
    (void)state;
    member all[MEMBERS] = {{0}};
    for (int i = 0; i < MEMBERS; i++)
        all[i].leaves = STEPS, all[i].late = -1;
    meet(all, "whole");
    for (int i = 0; i < MEMBERS; i++) {
        assert_string_equal(all[i].text, "");
        assert_int_equal(all[i].wrong, 0);
        assert_int_equal(all[i].steps, STEPS);
        for (int step = 0; step < STEPS; step++)
            assert_int_equal(all[i].seen[step], (1u << MEMBERS) - 1);
        assert_int_equal(all[i].stop, 1); /* one wanted it */
    }
}

static void who_is_gone_is_absent_for_everybody_and_the_others_go_on(void **state) {
    (void)state;
    member all[MEMBERS] = {{0}};
    for (int i = 0; i < MEMBERS; i++)
        all[i].leaves = STEPS, all[i].late = -1;
    all[0].leaves = 0; /* the first one too: nobody is needed */
    all[4].leaves = 7;
    meet(all, "gone");
    for (int i = 1; i < MEMBERS; i++) {
        assert_string_equal(all[i].text, "");
        assert_int_equal(all[i].wrong, 0);
        for (int step = 0; step < all[i].steps; step++)
            assert_int_equal(all[i].seen[step], step < 7 ? 0x3e : 0x2e);
        if (i != 4)
            assert_int_equal(all[i].steps, STEPS);
    }
}

static void who_comes_too_late_is_told_and_the_others_agree(void **state) {
    (void)state;
    member all[MEMBERS] = {{0}};
    for (int i = 0; i < MEMBERS; i++)
        all[i].leaves = STEPS, all[i].late = -1;
    all[2].late = 3;
    meet(all, "late");
    assert_int_equal(all[2].status, SL_EPEER);
    assert_true(*all[2].text);
    assert_int_equal(all[2].steps, 3);
    for (int i = 0; i < MEMBERS; i++)
        for (int step = 0; i != 2 && step < STEPS; step++)
            assert_int_equal(all[i].seen[step], step < 3 ? 0x3f : 0x3b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_get_everything_at_every_step),
        cmocka_unit_test(who_is_gone_is_absent_for_everybody_and_the_others_go_on),
        cmocka_unit_test(who_comes_too_late_is_told_and_the_others_agree),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
