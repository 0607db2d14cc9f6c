/* Texts that do not fit end after a whole word. */
#include "check.h"

#include "base/text.h"

static void what_fits_stays_as_it_is(void **state) {
    (void)state;
    char to[16];
    assert_int_equal(sl_text_fit(to, sizeof to, "fifteen letters"), 15);
    assert_string_equal(to, "fifteen letters");
    assert_int_equal(sl_text_fit(to, sizeof to, ""), 0);
    assert_string_equal(to, "");
}

/* As of an event: 255 bytes ended with "(88.1 of 99.6 GFL". */
static void no_word_is_cut(void **state) {
    (void)state;
    char to[32];
    sl_text_fit(to, sizeof to, "device healthy (88.1 of 99.6 GFLOP/s)");
    assert_string_equal(to, "device healthy (88.1 of 99.6...");
    sl_text_fit(to, sizeof to, "device healthy, but not free: all of its processors");
    assert_string_equal(to, "device healthy, but not...");
    sl_text_fit(to, sizeof to, "0123456789 12345678901 3456 8 01");
    assert_string_equal(to, "0123456789 12345678901 3456...");
}

static void a_word_longer_than_the_room_is_cut_between_characters(void **state) {
    (void)state;
    char to[9];
    sl_text_fit(to, sizeof to, "abcdefghij");
    assert_string_equal(to, "abcde...");
    sl_text_fit(to, sizeof to, "abcd\xc3\xa4\xc3\xb6\xc3\xbc");
    assert_string_equal(to, "abcd..."); /* the a-umlaut has bytes 4 and 5 */
}

static void a_format_is_cut_alike_and_may_hold_the_old_text(void **state) {
    (void)state;
    char to[16] = "link 1 -> 2";
    assert_int_equal(sl_text_format(to, sizeof to, "%s x %.2f", to, 2.5), 14);
    assert_string_equal(to, "link 1 -> 2...");
    sl_text_format(to, sizeof to, "%d of %d", 3, 4);
    assert_string_equal(to, "3 of 4");
}

static void pieces_are_added_until_one_is_cut(void **state) {
    (void)state;
    char to[24] = "";
    const char *pieces[] = {"link 1 -> 2", "", "rank 3", "host a", "host b"};
    for (int i = 0; i < 5; i++)
        sl_text_add(to, sizeof to, "; ", pieces[i]);
    assert_string_equal(to, "link 1 -> 2; rank 3..."); /* 19 bytes, and "; host a" does not fit */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_stays_as_it_is),
        cmocka_unit_test(no_word_is_cut),
        cmocka_unit_test(a_word_longer_than_the_room_is_cut_between_characters),
        cmocka_unit_test(a_format_is_cut_alike_and_may_hold_the_old_text),
        cmocka_unit_test(pieces_are_added_until_one_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
