/* hosts.json: what supervisor and leader tell each other arrives, names of hosts mean what an administrator
 * means by them, and a damaged file is refused. SL_SEED repeats the damage. */
#include "check.h"

#include "base/file.h"
#include "base/memory.h"
#include "run/file/roster.h"

#include <sys/random.h>
#include <unistd.h>

static char *make_folder(char *folder) {
    strcpy(folder, "/tmp/slackline-roster-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return folder;
}

static void add(sl_roster *roster, const char *name, int slots, const char *failed, const char *left) {
    assert_ok(sl_grow(&roster->host, &roster->capacity, (size_t)roster->count + 1, sizeof *roster->host));
    sl_roster_host *host = &roster->host[roster->count++];
    *host = (sl_roster_host){.slots = slots};
    snprintf(host->name, sizeof host->name, "%s", name);
    snprintf(host->why, sizeof host->why, "%s", failed);
    snprintf(host->slow, sizeof host->slow, "%s", left);
}

static void what_is_told_arrives(void **state) {
    (void)state;
    char folder[64];
    sl_roster told = sl_roster_empty(), heard;
    add(&told, "a", 2, "", "");
    add(&told, "b.example.org", 4, "ssh: no route \xff to host", ""); /* no UTF-8 */
    add(&told, "10.0.0.7", 1, "", "ops take twice as long");
    told.host[0].leave = 1;
    strcpy(told.local, "login");
    told.started = 1795302919443003000;
    told.move = (sl_roster_move){.iteration = 23,
                                 .began = 1795302919443003000,
                                 .ordered = 1795302919543003000,
                                 .ended = 1795302920043003000,
                                 .why = "because",
                                 .grow = 1,
                                 .layout = "1 replica of 2 pipeline ranks"};
    told.last = (sl_roster_cost){7, 18 * SL_MS, 97 * SL_MS, 483 * SL_MS, 45 * SL_MS, 643 * SL_MS};
    assert_int_equal(sl_roster_read(make_folder(folder), &heard), SL_ENONE);
    assert_ok(sl_roster_write(folder, &told));
    assert_ok(sl_roster_read(folder, &heard));
    assert_int_equal(heard.count, 3);
    assert_string_equal(heard.host[1].name, "b.example.org");
    assert_string_equal(heard.host[1].why, "ssh: no route ? to host");
    assert_string_equal(heard.host[2].slow, "ops take twice as long");
    assert_true(heard.host[0].leave && !heard.host[1].leave && heard.host[1].slots == 4);
    assert_int_equal(sl_roster_slots(&heard), 2);
    assert_string_equal(heard.local, "login");
    assert_string_equal(heard.move.why, "because");
    assert_int_equal(heard.move.iteration, 23);
    assert_true(heard.move.grow);
    assert_string_equal(heard.move.layout, "1 replica of 2 pipeline ranks");
    /* to the microsecond */
    assert_true(llabs(heard.started - told.started) < 1000 &&
                llabs(heard.move.ended - told.move.ended) < 1000);
    assert_true(heard.last.iteration == 7 && heard.last.total == 643 * SL_MS &&
                heard.last.first == 45 * SL_MS);
    sl_roster_remove(folder);
    assert_int_equal(rmdir(folder), 0);
    sl_roster_free(&told);
    sl_roster_free(&heard);
}

static void names_mean_one_host(void **state) {
    (void)state;
    assert_true(sl_roster_same("node7", "node7") && sl_roster_same("node7", "NODE7"));
    assert_true(sl_roster_same("node7", "node7.example.org") &&
                sl_roster_same("root@node7.example.org", "node7"));
    assert_true(sl_roster_same("10.0.0.1", "me@10.0.0.1"));
    assert_false(sl_roster_same("node7", "node70") || sl_roster_same("node7.a.org", "node7.b.org"));
    assert_false(sl_roster_same("10.0.0.1", "10") || sl_roster_same("10.0.0.1", "10.0.0.2"));
    assert_false(sl_roster_same("", "a") || sl_roster_same(".a", ""));
    sl_roster roster = sl_roster_empty();
    add(&roster, "x.a.org", 1, "", "");
    add(&roster, "x.b.org", 1, "", "");
    assert_int_equal(sl_roster_find(&roster, "x.b.org"), 1);
    assert_int_equal(sl_roster_find(&roster, "y"), -1);
    sl_roster_free(&roster);
}

static void a_host_finds_itself(void **state) {
    (void)state;
    sl_roster roster = sl_roster_empty();
    add(&roster, "192.0.2.1", 1, "", ""); /* an address for documents: nobody's */
    add(&roster, "127.0.0.1", 1, "", ""); /* the supervisor's */
    add(&roster, "here.example.org", 1, "", "");
    strcpy(roster.local, "login");
    assert_int_equal(sl_roster_here(&roster, "here"), 2);
    assert_int_equal(sl_roster_here(&roster, "login"), 1);
    assert_int_equal(sl_roster_here(&roster, "elsewhere"), -1);
    sl_roster_free(&roster);
}

static void what_is_no_roster_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",
        "{",
        "[]",
        "3",
        "{\"format\": \"slackline-hosts-2\", \"hosts\": []}",
        "{\"format\": \"slackline-hosts-1\"}",
        "{\"format\": \"slackline-hosts-1\", \"hosts\": [3]}",
        "{\"format\": \"slackline-hosts-1\", \"hosts\": [{\"name\": \"a\"}]}",
        "{\"format\": \"slackline-hosts-1\", \"hosts\": [{\"name\": \"\", \"slots\": 1}]}",
        "{\"format\": \"slackline-hosts-1\", \"hosts\": [{\"name\": \"a\", \"slots\": -1}]}"};
    char folder[64], path[96];
    snprintf(path, sizeof path, "%s/hosts.json", make_folder(folder));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sl_roster roster;
        assert_ok(sl_file_write(path, wrong[i], strlen(wrong[i])));
        assert_fails(sl_roster_read(folder, &roster), SL_EINVAL, "hosts.json");
        sl_roster_free(&roster);
    }
    unlink(path);
    rmdir(folder);
}

/* Whatever bytes are there: read or refused, never a crash, and what was read can be written. */
static void damage_does_no_harm(void **state) {
    (void)state;
    unsigned seed = 0;
    const char *given = getenv("SL_SEED");
    if (given)
        seed = (unsigned)strtoul(given, NULL, 10);
    else
        assert_int_equal(getrandom(&seed, sizeof seed, 0), (ssize_t)sizeof seed);
    printf("SL_SEED=%u\n", seed);
    srand(seed);
    char folder[64], path[96], *text;
    size_t size;
    sl_roster roster = sl_roster_empty();
    add(&roster, "a", 2, "it does not answer", "it is slow");
    roster.move.iteration = roster.last.iteration = 3;
    snprintf(path, sizeof path, "%s/hosts.json", make_folder(folder));
    assert_ok(sl_roster_write(folder, &roster));
    sl_roster_free(&roster);
    assert_ok(sl_file_read(path, &text, &size));
    for (int i = 0; i < 2000; i++) {
        char *damaged;
        assert_ok(sl_alloc(&damaged, size, 1));
        memcpy(damaged, text, size);
        size_t length = rand() % 4 ? size : (size_t)rand() % size;
        for (int n = rand() % 4; n >= 0; n--)
            damaged[(size_t)rand() % size] =
                (char)(rand() % 3 ? "0123456789-.e\"{}[],:"[rand() % 20] : rand() % 256);
        FILE *file = fopen(path, "w"); /* not sl_file_write, which syncs */
        assert_non_null(file);
        fwrite(damaged, 1, length, file);
        fclose(file);
        sl_free(damaged);
        sl_status status = sl_roster_read(folder, &roster);
        assert_true(status == SL_OK || status == SL_EINVAL);
        for (int h = 0; h < roster.count; h++)
            assert_true(roster.host[h].slots >= 1 && roster.host[h].name[0]);
        sl_roster_free(&roster);
    }
    sl_free(text);
    unlink(path);
    rmdir(folder);
}

static void an_order_to_grow_is_there_until_it_is_canceled(void **state) {
    (void)state;
    char folder[64];
    make_folder(folder);
    assert_false(sl_roster_growth_is_ordered(folder));
    assert_ok(sl_roster_order_growth(folder));
    assert_true(sl_roster_growth_is_ordered(folder));
    sl_roster_cancel_growth(folder);
    sl_roster_cancel_growth(folder); /* absent is no error */
    assert_false(sl_roster_growth_is_ordered(folder));
    assert_int_equal(rmdir(folder), 0); /* nothing else is left */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_to_grow_is_there_until_it_is_canceled),
        cmocka_unit_test(what_is_told_arrives),
        cmocka_unit_test(names_mean_one_host),
        cmocka_unit_test(a_host_finds_itself),
        cmocka_unit_test(what_is_no_roster_is_refused),
        cmocka_unit_test(damage_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
