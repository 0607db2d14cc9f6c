/* A file of lines that another program writes is followed whatever happens to it: each whole line comes once,
 * and what no longer counts is said. */
#include "base/lines.h"
#include "base/memory.h"
#include "check.h"

#include <unistd.h>

typedef struct heard {
    char text[4096];
    int anew;
} heard;

static sl_status take(void *context, const char *line, size_t length) {
    heard *h = context;
    size_t used = strlen(h->text);
    if (length >= 3 && memcmp(line, "bad", 3) == 0)
        return SL_EINVAL;
    snprintf(h->text + used, sizeof h->text - used, "%.*s;", (int)length, line);
    return SL_OK;
}

static void on_anew(void *context) {
    heard *h = context;
    h->anew++;
    h->text[0] = 0;
}

static char path[] = "/tmp/sl-lines-XXXXXX";

static void put(const char *mode, const char *text) {
    FILE *out = fopen(path, mode);
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static int begin(void **state) {
    (void)state;
    strcpy(path + strlen(path) - 6, "XXXXXX");
    int file = mkstemp(path);
    close(file);
    return unlink(path);
}

static int end(void **state) {
    (void)state;
    unlink(path);
    return 0;
}

static void step(sl_lines *l, heard *h, const char *wanted, int anew) {
    assert_ok(sl_lines_step(l, 1 << 20, take, on_anew, h));
    assert_string_equal(h->text, wanted);
    assert_int_equal(h->anew, anew);
}

static void whole_lines_come_once_and_damaged_ones_are_counted(void **state) {
    sl_lines l;
    heard h = {.anew = 0};
    (void)state;
    assert_ok(sl_lines_open(path, &l));
    step(&l, &h, "", 0); /* absent */
    put("w", "one\ntw");
    step(&l, &h, "one;", 0);
    step(&l, &h, "one;", 0);
    put("a", "o\n\n  \nbad line\nthree\n");
    step(&l, &h, "one;two;three;", 0);
    assert_int_equal(l.damaged, 1);
    sl_lines_close(&l);
}

static void a_file_begun_anew_is_seen_also_when_it_is_longer(void **state) {
    sl_lines l;
    heard h = {.anew = 0};
    (void)state;
    assert_ok(sl_lines_open(path, &l));
    put("w", "first run, line 1\nfirst run, line 2\n");
    step(&l, &h, "first run, line 1;first run, line 2;", 0);
    put("w", "a\n"); /* shorter */
    step(&l, &h, "a;", 1);
    put("w", "b\nlonger than before\n"); /* the same file, longer, other bytes */
    step(&l, &h, "b;longer than before;", 2);
    put("w", "");
    step(&l, &h, "", 3);
    put("a", "again\n");
    step(&l, &h, "again;", 3);
    sl_lines_close(&l);
}

static void a_file_that_is_replaced_or_removed_no_longer_counts(void **state) {
    char other[64];
    sl_lines l;
    heard h = {.anew = 0};
    (void)state;
    assert_ok(sl_lines_open(path, &l));
    put("w", "1\n2\n3\n");
    step(&l, &h, "1;2;3;", 0);
    snprintf(other, sizeof other, "%s.new", path);
    FILE *out = fopen(other, "w");
    fputs("1\n2\n", out); /* cut, as a run that goes on does it */
    fclose(out);
    assert_int_equal(rename(other, path), 0);
    step(&l, &h, "1;2;", 1);
    unlink(path);
    step(&l, &h, "", 2);
    put("w", "4\n");
    step(&l, &h, "4;", 2);
    sl_lines_close(&l);
}

static void a_step_reads_no_more_than_it_may_and_a_failing_allocation_is_told(void **state) {
    sl_lines l;
    heard h = {.anew = 0};
    (void)state;
    assert_ok(sl_lines_open(path, &l));
    FILE *out = fopen(path, "w");
    for (int i = 0; i < 1000000; i++)
        fputs("bad\n", out);
    fclose(out);
    assert_ok(sl_lines_step(&l, 1, take, on_anew, &h));
    assert_true(l.at > 0 && l.at < l.size);
    while (l.at < l.size)
        assert_ok(sl_lines_step(&l, 1 << 20, take, on_anew, &h));
    assert_int_equal(l.damaged, 1000000);
    sl_lines_close(&l);
    assert_ok(sl_lines_open(path, &l));
    sl_alloc_fail_at(0);
    assert_int_equal(sl_lines_step(&l, 1 << 20, take, on_anew, &h), SL_ENOMEM);
    sl_alloc_fail_at(-1);
    sl_lines_close(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole_lines_come_once_and_damaged_ones_are_counted, begin, end),
        cmocka_unit_test_setup_teardown(a_file_begun_anew_is_seen_also_when_it_is_longer, begin, end),
        cmocka_unit_test_setup_teardown(a_file_that_is_replaced_or_removed_no_longer_counts, begin, end),
        cmocka_unit_test_setup_teardown(a_step_reads_no_more_than_it_may_and_a_failing_allocation_is_told,
                                        begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
