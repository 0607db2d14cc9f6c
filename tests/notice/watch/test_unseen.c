/* What programs say that cannot be seen of them: the same words once, with how many say so; what is no word
 * does no harm. */
#include "base/file.h"
#include "check.h"
#include "notice/watch/unseen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(const char *folder, const char *name, const char *content, size_t size) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(sl_file_renew(path, content, size), SL_OK);
}

static void lines_of_processes_are_counted(void **state) {
    (void)state;
    char folder[] = "/tmp/slackline-unseen-XXXXXX";
    sl_unseen unseen;
    assert_non_null(mkdtemp(folder));
    put(folder, "1.unseen", "calls over ucc\n", 15);
    put(folder, "2.unseen", "calls over ucc\na future\n", 24);
    put(folder, "2.0.ring", "a ring\n", 7);
    sl_unseen_read(folder, &unseen);
    assert_int_equal(unseen.count, 2);
    for (int i = 0; i < 2; i++) {
        int ucc = strcmp(unseen.text[i], "calls over ucc") == 0;
        assert_string_equal(unseen.text[i], ucc ? "calls over ucc" : "a future");
        assert_int_equal(unseen.processes[i], ucc ? 2 : 1);
    }
    assert_int_equal(sl_path_remove(folder), SL_OK);
    sl_unseen_read(folder, &unseen);
    assert_int_equal(unseen.count, 0);
}

static void what_is_no_word_does_no_harm(void **state) {
    (void)state;
    char folder[] = "/tmp/slackline-unseen-XXXXXX", many[3000];
    sl_unseen unseen;
    assert_non_null(mkdtemp(folder));
    memset(many, 'x', sizeof many);
    put(folder, "1.unseen", many, sizeof many);
    put(folder, "2.unseen", "\033[2Jgone\n\n\n", 11);
    put(folder, "3.unseen", "a\nb\nc\nd\ne\nf\ng\nh\n", 16);
    sl_unseen_read(folder, &unseen);
    assert_int_equal(unseen.count, SL_UNSEEN_LINES);
    for (int i = 0; i < unseen.count; i++) {
        assert_true(strlen(unseen.text[i]) > 0 && strlen(unseen.text[i]) < sizeof unseen.text[i]);
        assert_null(strchr(unseen.text[i], '\033'));
    }
    assert_int_equal(sl_path_remove(folder), SL_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_processes_are_counted),
        cmocka_unit_test(what_is_no_word_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
