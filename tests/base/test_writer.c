/* What cannot be written costs what would have stood in that file, is told once, and holds nobody up. */
#include "check.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/writer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOON (50 * SL_MS)

static char folder[64], path[128];
static sl_writer *writer;

static int open_writer(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/slackline-writer.XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    assert_ok(sl_writer_open(100000, &writer));
    return 0;
}

static int close_writer(void **state) {
    (void)state;
    sl_writer_close(writer);
    return sl_path_remove(folder) == SL_OK ? 0 : -1;
}

static void put(sl_writer_how how, const char *text, size_t tail) {
    sl_writer_put(writer, path, how, text, strlen(text), tail);
}

static void holds(const char *expected) {
    char *text;
    size_t size;
    assert_true(sl_writer_flush(writer, SL_WRITER_PATIENCE));
    assert_ok(sl_file_read(path, &text, &size));
    assert_string_equal(text, expected);
    sl_free(text);
}

static void no_trouble(void) {
    char text[500];
    if (sl_writer_trouble(writer, text, sizeof text))
        fail_msg("%s", text);
}

static void one_trouble(const char *says) {
    char text[500];
    assert_true(sl_writer_trouble(writer, text, sizeof text));
    assert_non_null(strstr(text, path));
    assert_says(text, says);
    no_trouble();
}

static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void lines_are_appended_behind_the_last_whole_one(void **state) {
    (void)state;
    assert_ok(sl_file_write(path, "old\nhal", 7));
    put(SL_WRITER_APPEND, "one\n", 0);
    put(SL_WRITER_APPEND, "two\n", 0);
    holds("old\none\ntwo\n");
    put(SL_WRITER_REMOVE, "", 0);
    assert_true(sl_writer_flush(writer, SL_WRITER_PATIENCE));
    assert_ok(sl_file_write(path, "never a line", 12));
    put(SL_WRITER_APPEND, "one\n", 0);
    holds("one\n");
    put(SL_WRITER_OVER, "three\n", 0);
    put(SL_WRITER_APPEND, "four\n", 0);
    holds("three\nfour\n");
    put(SL_WRITER_REMOVE, "", 0);
    assert_true(sl_writer_flush(writer, SL_WRITER_PATIENCE));
    assert_int_equal(access(path, F_OK), -1);
    put(SL_WRITER_WHOLE, "five", 0);
    holds("five");
    no_trouble();
}

/* As when the process that leads a watch is replaced, and leads again later. */
static void a_file_that_another_process_continued_is_continued_at_its_end(void **state) {
    (void)state;
    sl_writer *other;
    assert_ok(sl_writer_open(100000, &other));
    put(SL_WRITER_OVER, "first, and long\n", 0);
    holds("first, and long\n");
    sl_writer_put(other, path, SL_WRITER_APPEND, "other\n", 6, 0);
    assert_true(sl_writer_flush(other, SL_WRITER_PATIENCE));
    put(SL_WRITER_APPEND, "again\n", 0);
    holds("first, and long\nother\nagain\n");
    sl_writer_put(other, path, SL_WRITER_OVER, "", 0, 0);
    assert_true(sl_writer_flush(other, SL_WRITER_PATIENCE));
    put(SL_WRITER_APPEND, "new\n", 0);
    holds("new\n");
    sl_writer_close(other);
}

static void an_end_of_its_own_stays_the_end(void **state) {
    (void)state;
    put(SL_WRITER_OVER, "[0 end]", 5);
    put(SL_WRITER_APPEND, ",1 end]", 5);
    holds("[0,1 end]");
    put(SL_WRITER_APPEND, ",]", 1); /* shorter than the one before */
    holds("[0,1,]");
}

/* A limit on the size of a file plays the full disk: some bytes fit, and not all. */
static void a_full_disk_leaves_whole_lines_and_is_told_once(void **state) {
    (void)state;
    put(SL_WRITER_APPEND, "0123456789\n", 0);
    holds("0123456789\n");
    limit_files(15);
    put(SL_WRITER_APPEND, "abcdefghij\n", 0);
    put(SL_WRITER_APPEND, "klm\n", 0); /* this one fits */
    put(SL_WRITER_APPEND, "opqrst\n", 0);
    holds("0123456789\nklm\n");
    limit_files(RLIM_INFINITY);
    put(SL_WRITER_APPEND, "uv\n", 0);
    holds("0123456789\nklm\nuv\n");
    one_trouble("cannot be written: File too large");
}

static void a_full_disk_leaves_the_end_of_its_own(void **state) {
    (void)state;
    put(SL_WRITER_OVER, "[0 end]", 5);
    assert_true(sl_writer_flush(writer, SL_WRITER_PATIENCE));
    limit_files(10);
    put(SL_WRITER_APPEND, ",1234567 end]", 5);
    holds("[0 end]");
    limit_files(RLIM_INFINITY);
    put(SL_WRITER_APPEND, ",1 end]", 5);
    holds("[0,1 end]");
    one_trouble("File too large");
}

static void a_folder_that_vanished_is_told_once_and_used_again_when_it_is_back(void **state) {
    (void)state;
    put(SL_WRITER_APPEND, "one\n", 0);
    holds("one\n");
    assert_ok(sl_path_remove(folder));
    put(SL_WRITER_APPEND, "two\n", 0);
    put(SL_WRITER_APPEND, "three\n", 0);
    assert_true(sl_writer_flush(writer, SL_WRITER_PATIENCE));
    one_trouble("No such file");
    assert_ok(sl_directory_make(folder));
    put(SL_WRITER_APPEND, "four\n", 0);
    holds("four\n");
}

/* A pipe without a reader is a file system that hangs. */
static void what_hangs_holds_up_nobody_and_is_given_up(void **state) {
    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    put(SL_WRITER_APPEND, "one\n", 0);
    put(SL_WRITER_APPEND, "two\n", 0);
    assert_false(sl_writer_flush(writer, SOON));
    one_trouble("could not be written for 0.05 s");
    sl_writer_close(writer);
    assert_ok(sl_writer_open(100000, &writer)); /* the one that hangs keeps what is its own */
    assert_true(sl_writer_flush(writer, SOON));
}

static void of_whole_files_that_wait_the_newest_alone_stays(void **state) {
    (void)state;
    static char large[60000];
    char other[128], *text;
    size_t size;
    memset(large, 'x', sizeof large);
    snprintf(other, sizeof other, "%s/whole", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    put(SL_WRITER_APPEND, "one\n", 0);
    for (int i = 0; i < 100; i++) { /* two of them would be more than may wait */
        large[0] = (char)('0' + i % 10);
        sl_writer_put(writer, other, SL_WRITER_RENEW, large, sizeof large, 0);
    }
    int reader = open(path, O_RDONLY);
    char got[5] = "";
    assert_int_equal(read(reader, got, 4), 4);
    assert_string_equal(got, "one\n");
    assert_true(sl_writer_flush(writer, SL_WRITER_PATIENCE));
    close(reader);
    assert_ok(sl_file_read(other, &text, &size));
    assert_int_equal(size, sizeof large);
    assert_int_equal(text[0], '9');
    sl_free(text);
    no_trouble();
}

static void more_than_may_wait_is_lost_and_told_once(void **state) {
    (void)state;
    static char large[60000];
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = '\n';
    assert_int_equal(mkfifo(path, 0600), 0);
    put(SL_WRITER_APPEND, "one\n", 0);
    for (int i = 0; i < 5; i++)
        sl_writer_put(writer, path, SL_WRITER_APPEND, large, sizeof large, 0);
    one_trouble("written too slowly");
    int reader = open(path, O_RDONLY);
    size_t all = 0;
    while (all < 4 + sizeof large) {
        ssize_t got = read(reader, large, sizeof large);
        assert_true(got > 0);
        all += (size_t)got;
    }
    assert_true(sl_writer_flush(writer, SL_WRITER_PATIENCE));
    assert_int_equal(all, 4 + sizeof large);
    close(reader);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, open_writer, close_writer)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(a_file_that_another_process_continued_is_continued_at_its_end),
        WITH(lines_are_appended_behind_the_last_whole_one),
        WITH(an_end_of_its_own_stays_the_end),
        WITH(a_full_disk_leaves_whole_lines_and_is_told_once),
        WITH(a_full_disk_leaves_the_end_of_its_own),
        WITH(a_folder_that_vanished_is_told_once_and_used_again_when_it_is_back),
        WITH(what_hangs_holds_up_nobody_and_is_given_up),
        WITH(of_whole_files_that_wait_the_newest_alone_stays),
        WITH(more_than_may_wait_is_lost_and_told_once),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
