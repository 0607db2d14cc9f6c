/* A run that goes on keeps the metrics of what its checkpoint has, and nothing of what is done again. */
#include "run/checkpoint/bytes.h"

#include "run/journal/journal_cut.h"

#include <sys/resource.h>

static void check(const char *before, int first, const char *after) {
    char *text;
    size_t size;
    const char *path = in_folder("metrics.jsonl");
    assert_ok(sl_file_write(path, before, strlen(before)));
    assert_ok(sl_journal_cut_metrics(path, first));
    assert_ok(sl_file_read(path, &text, &size));
    assert_string_equal(text, after);
    sl_free(text);
}

#define LINE(i) "{\"iteration\":" #i ",\"loss\":1.5}\n"

static void lines_from_the_checkpoint_on_go(void **state) {
    (void)state;
    check(LINE(0) LINE(1) LINE(2), 2, LINE(0) LINE(1));
    check(LINE(0) LINE(1), 2, LINE(0) LINE(1));
    check(LINE(0) LINE(1), 0, "");
    check("", 3, "");
}

static void what_was_not_written_whole_goes(void **state) {
    (void)state;
    check(LINE(0) "{\"iteration\":1,\"lo", 5, LINE(0));
    check(LINE(0) "{\"iteration\":1}", 5, LINE(0)); /* whole, but for its end */
    check(LINE(0) "nonsense\n[1]\n{\"iteration\":\"1\"}\n" LINE(1), 5, LINE(0) LINE(1));
}

static void nothing_to_cut_stays_nothing(void **state) {
    (void)state;
    assert_ok(sl_journal_cut_metrics(in_folder("absent"), 3));
    assert_int_equal(access(in_folder("absent"), F_OK), -1);
}

/* 64 MiB of metrics, in a process that may take 16 MiB more than it has. */
static void a_long_run_goes_on_in_little_memory_and_no_more_room(void **state) {
    (void)state;
    enum { LINES = 1 << 16, LENGTH = 1024 };
    const char *path = in_folder("long.jsonl");
    struct stat found;
    struct rlimit before, small;
    long pages = 0;
    FILE *out = fopen(path, "we"), *use = fopen("/proc/self/statm", "re");
    for (int i = 0; i < LINES; i++)
        fprintf(out, "{\"iteration\":%-*d}\n", LENGTH - 15, i);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(fscanf(use, "%ld", &pages), 1);
    fclose(use);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    small = (struct rlimit){(rlim_t)(pages * sysconf(_SC_PAGESIZE) + (16 << 20)), before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
    sl_status status = sl_journal_cut_metrics(path, LINES - 3);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_ok(status);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_size, (off_t)(LINES - 3) * LENGTH);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_from_the_checkpoint_on_go),
        cmocka_unit_test(what_was_not_written_whole_goes),
        cmocka_unit_test(nothing_to_cut_stays_nothing),
        cmocka_unit_test(a_long_run_goes_on_in_little_memory_and_no_more_room),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
