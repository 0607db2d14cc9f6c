/* A run that goes on keeps the metrics of what its checkpoint has, and nothing of what is done again. */
#include "run/checkpoint/bytes.h"

#include "run/journal/journal_cut.h"

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

static void events_stay_but_for_half_a_line(void **state) {
    (void)state;
    char *text;
    size_t size;
    const char *path = in_folder("events.jsonl");
    assert_ok(sl_file_write(path, "{\"a\":1}\n{\"b\":", 13));
    assert_ok(sl_journal_cut_events(path));
    assert_ok(sl_file_read(path, &text, &size));
    assert_string_equal(text, "{\"a\":1}\n");
    sl_free(text);
    assert_ok(sl_journal_cut_events(in_folder("absent")));
    assert_ok(sl_journal_cut_metrics(in_folder("absent"), 3));
    assert_int_equal(access(in_folder("absent"), F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_from_the_checkpoint_on_go),
        cmocka_unit_test(what_was_not_written_whole_goes),
        cmocka_unit_test(events_stay_but_for_half_a_line),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
