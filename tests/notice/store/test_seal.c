/* A server that strangers share: a store with the job's key gives its caller what somebody with the key
 * wrote, and nothing else. */
#include "base/build_id.h"
#include "base/file.h"
#include "base/memory.h"
#include "check.h"
#include "launch/redis.h"
#include "notice/store/seal.h"
#include "notice/store/store.h"
#include "notice/store/store_link.h"

#include <unistd.h>

#define KEY "the-key-of-this-job-alone"

static struct {
    char folder[64], url[512];
    sl_redis redis;
    sl_store_link link; /* as a stranger uses it */
} server;

static int begin(void **state) {
    (void)state;
    char redis_path[PATH_MAX];
    if (sl_redis_find(redis_path) != SL_OK) {
        printf("skipped: %s\n", sl_error_text());
        exit(77);
    }
    snprintf(server.folder, sizeof server.folder, "/tmp/slackline-seal-XXXXXX");
    assert_non_null(mkdtemp(server.folder));
    assert_ok(sl_redis_start(server.folder, NULL, &server.redis));
    assert_ok(sl_redis_wait(&server.redis, 10 * SL_SECOND));
    sl_redis_url(&server.redis, "127.0.0.1", server.url, sizeof server.url);
    return sl_store_link_open(server.url, &server.link) == SL_OK ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    sl_store_link_close(&server.link);
    sl_redis_stop(&server.redis);
    return sl_path_remove(server.folder) == SL_OK ? 0 : -1;
}

static sl_store *open_store(const char *job, const char *key) {
    sl_store *store;
    assert_ok(sl_store_open(server.url, job, 0, &store));
    if (key)
        assert_ok(sl_store_seal(store, key));
    return store;
}

/* A request of a stranger. */
static redisReply *ask(int count, const char **words, const size_t *sizes) {
    redisReply *reply;
    size_t own[16];
    for (int i = 0; i < count; i++)
        own[i] = sizes && sizes[i] ? sizes[i] : strlen(words[i]);
    assert_ok(sl_store_link_ask(&server.link, count, words, own, 20 * SL_SECOND, &reply));
    return reply;
}

static void add_raw(const char *log, const void *bytes, size_t size, const void *seal, size_t seal_size) {
    const char *words[] = {"XADD", log, "*", "b", bytes, "s", seal};
    const size_t sizes[] = {0, 0, 0, 0, size, 0, seal_size};
    freeReplyObject(ask(seal ? 7 : 5, words, sizes));
}

/* The newest entry of a log: its bytes and its seal. */
static void newest(const char *log, char bytes[64], sl_seal *seal) {
    const char *words[] = {"XREAD", "COUNT", "1000", "STREAMS", log, "0-0"};
    redisReply *reply = ask(6, words, NULL), *all = reply->element[0]->element[1];
    redisReply *fields = all->element[all->elements - 1]->element[1];
    assert_int_equal(fields->elements, 4);
    assert_int_equal(fields->element[3]->len, sizeof *seal);
    snprintf(bytes, 64, "%s", fields->element[1]->str);
    memcpy(seal, fields->element[3]->str, sizeof *seal);
    freeReplyObject(reply);
}

/* All that can be read of a log, with commas between. */
static const char *read_all(sl_store *store, const char *log, sl_store_position *position) {
    static char text[512];
    const sl_store_entry *entry;
    size_t count;
    text[0] = 0;
    assert_ok(sl_store_read(store, log, position, 100, 0, &entry, &count));
    for (size_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? "," : "",
                 (const char *)entry[i].bytes);
    return text;
}

static void what_strangers_write_is_not_read_and_counted(void **state) {
    (void)state;
    sl_store *a = open_store("one", KEY), *b = open_store("one", KEY),
             *wrong = open_store("one", "another-key-as-long");
    sl_store *none = open_store("one", NULL), *two = open_store("two", KEY);
    sl_store_position position = {""};
    sl_seal seal;
    char bytes[64];
    assert_ok(sl_store_append(a, "orders", "first", 5, 100));
    assert_ok(sl_store_append(wrong, "orders", "wrong key", 9, 100));
    assert_ok(sl_store_append(none, "orders", "no key", 6, 100));
    add_raw("slackline:one:orders", "no seal", 7, NULL, 0);
    assert_ok(sl_store_append(a, "others", "moved", 5, 100));
    newest("slackline:one:others", bytes, &seal);
    add_raw("slackline:one:orders", bytes, strlen(bytes), &seal, sizeof seal); /* of another log */
    assert_ok(sl_store_append(two, "orders", "other job", 9, 100));
    newest("slackline:two:orders", bytes, &seal);
    add_raw("slackline:one:orders", bytes, strlen(bytes), &seal, sizeof seal);
    assert_ok(sl_store_append(a, "orders", "second", 6, 100));
    newest("slackline:one:orders", bytes, &seal);
    add_raw("slackline:one:orders", "Second", 6, &seal, sizeof seal); /* one letter */
    seal.counter++;
    add_raw("slackline:one:orders", bytes, strlen(bytes), &seal, sizeof seal); /* another number */
    assert_string_equal(read_all(b, "orders", &position), "first,second");
    assert_int_equal(sl_store_refused_by(b)->foreign, 7);
    assert_int_equal(sl_store_refused_by(b)->repeated, 0);
    sl_store_close(a), sl_store_close(b), sl_store_close(wrong), sl_store_close(none), sl_store_close(two);
}

static void what_was_read_is_not_read_again_as_a_copy(void **state) {
    (void)state;
    sl_store *a = open_store("copies", KEY), *b = open_store("copies", KEY);
    sl_store_position position = {""}, again = {""};
    sl_seal seal;
    char bytes[64];
    assert_ok(sl_store_append(a, "orders", "hold", 4, 100));
    newest("slackline:copies:orders", bytes, &seal);
    assert_string_equal(read_all(b, "orders", &position), "hold");
    assert_ok(sl_store_append(a, "orders", "release", 7, 100));
    add_raw("slackline:copies:orders", bytes, strlen(bytes), &seal, sizeof seal);
    assert_string_equal(read_all(b, "orders", &position), "release");
    assert_int_equal(sl_store_refused_by(b)->repeated, 1);
    assert_string_equal(read_all(b, "orders", &again),
                        "hold,release"); /* who begins anew reads the log as it is */
    sl_store_close(a), sl_store_close(b);
}

/* 200 senders in turns, each with a copy of its first entry after its second. */
static void copies_of_many_senders_are_not_read(void **state) {
    (void)state;
    enum { SENDERS = 200 };
    static char first[SENDERS][64];
    static sl_seal seal[SENDERS];
    sl_store *reader = open_store("many", KEY);
    sl_store_position position = {""};
    const sl_store_entry *entry;
    size_t count;
    for (int i = 0; i < SENDERS; i++) {
        char second[16];
        sl_store *sender = open_store("many", KEY);
        snprintf(second, sizeof second, "second %d", i);
        assert_ok(sl_store_append(sender, "beats", "first", 5, 10000));
        newest("slackline:many:beats", first[i], &seal[i]);
        assert_ok(sl_store_append(sender, "beats", second, strlen(second), 10000));
        sl_store_close(sender);
    }
    for (int i = SENDERS; i-- > 0;)
        add_raw("slackline:many:beats", first[i], strlen(first[i]), &seal[i], sizeof seal[i]);
    assert_ok(sl_store_read(reader, "beats", &position, 1000, 0, &entry, &count));
    assert_int_equal(count, 2 * SENDERS);
    assert_string_equal(entry[399].bytes, "second 199");
    assert_int_equal(sl_store_refused_by(reader)->repeated, SENDERS);
    sl_store_close(reader);
}

static void values_of_strangers_are_none(void **state) {
    (void)state;
    sl_store *a = open_store("values", KEY), *b = open_store("values", KEY),
             *none = open_store("values", NULL);
    void *bytes;
    size_t size;
    int won;
    assert_ok(sl_store_set(a, "verdict", "well", 4, 0));
    assert_ok(sl_store_get(b, "verdict", &bytes, &size));
    assert_int_equal(size, 4);
    assert_string_equal(bytes, "well");
    sl_free(bytes);
    assert_ok(sl_store_get(none, "verdict", &bytes, &size)); /* who looks on reads it without the key */
    assert_string_equal(bytes, "well");
    sl_free(bytes);
    assert_ok(sl_store_set(none, "verdict", "slow", 4, 0));
    assert_ok(sl_store_get(b, "verdict", &bytes, &size));
    assert_null(bytes);
    assert_int_equal(sl_store_refused_by(b)->foreign, 1);
    assert_ok(sl_store_set(none, "seat", "stranger", 8, 0)); /* nobody of the job holds it */
    assert_ok(sl_store_claim(a, "seat", "a", 1, 0, &won));
    assert_int_equal(won, 1);
    assert_ok(sl_store_claim(b, "seat", "b", 1, 0, &won));
    assert_int_equal(won, 0);
    assert_ok(sl_store_get(b, "seat", &bytes, &size));
    assert_string_equal(bytes, "a");
    sl_free(bytes);
    sl_store_close(a), sl_store_close(b), sl_store_close(none);
}

static void another_version_is_named_with_both_hosts(void **state) {
    (void)state;
    sl_store *a = open_store("versions", KEY), *none = open_store("versions", NULL);
    sl_store_position position = {""}, from = {""};
    sl_seal seal;
    char text[300], host[64] = "";
    assert_ok(sl_seal_begin(&seal));
    snprintf(seal.version, sizeof seal.version, "9.9.9");
    snprintf(seal.host, sizeof seal.host, "far-away");
    seal.counter = 1;
    assert_ok(sl_seal_close(&seal, KEY, "slackline:versions:nodes", "beat", 4));
    add_raw("slackline:versions:nodes", "beat", 4, &seal, sizeof seal);
    sl_store *both[] = {a, none};
    gethostname(host, sizeof host - 1);
    sl_store_version_text(a, text, sizeof text);
    assert_string_equal(text, "");
    for (int i = 0; i < 2; i++) {
        assert_string_equal(read_all(both[i], "nodes", i ? &from : &position), "");
        sl_store_version_text(both[i], text, sizeof text);
        assert_says(text, "9.9.9 'far-away'");
        assert_non_null(strstr(text, sl_build_id()));
        assert_non_null(strstr(text, host));
        assert_int_equal(sl_store_refused_by(both[i])->foreign, 0);
    }
    sl_store_close(a), sl_store_close(none);
}

static void an_answer_that_fills_the_memory_is_not_read(void **state) {
    (void)state;
    sl_store *store;
    size_t size = (size_t)80 << 20;
    char *large = malloc(size);
    void *bytes;
    memset(large, 'x', size);
    assert_ok(sl_store_open(server.url, "large", 60 * SL_SECOND, &store));
    assert_ok(sl_store_seal(store, KEY));
    const char *words[] = {"SET", "slackline:large:key", large};
    const size_t sizes[] = {0, 0, size};
    freeReplyObject(ask(3, words, sizes));
    free(large);
    assert_fails(sl_store_get(store, "key", &bytes, &size), SL_EPEER, "more than 64 MiB");
    assert_null(bytes);
    sl_store_close(store);
    const char *gone[] = {"DEL", "slackline:large:key"};
    freeReplyObject(ask(2, gone, NULL));
}

static void a_key_that_can_be_guessed_is_refused(void **state) {
    (void)state;
    sl_store *store = open_store("short", NULL);
    assert_fails(sl_store_seal(store, "short"), SL_EINVAL, "16 to 256 characters");
    assert_fails(sl_store_seal(store, "long enough, but words"), SL_EINVAL,
                 "without blanks"); /* no file holds it */
    sl_store_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_strangers_write_is_not_read_and_counted),
        cmocka_unit_test(what_was_read_is_not_read_again_as_a_copy),
        cmocka_unit_test(copies_of_many_senders_are_not_read),
        cmocka_unit_test(values_of_strangers_are_none),
        cmocka_unit_test(another_version_is_named_with_both_hosts),
        cmocka_unit_test(an_answer_that_fills_the_memory_is_not_read),
        cmocka_unit_test(a_key_that_can_be_guessed_is_refused),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
