/* The reader of pickles: what Python writes of plain values is read, what could run code or loop is refused.
 */
#include "check.h"

#include "notice/hang/pickle.h"

#include <string.h>

static sl_status read_bytes(const char *bytes, size_t size, json_t **json) {
    return sl_pickle_read("dump", bytes, size, json);
}

/* pickle.dumps({"a": [1, -2, 300, 70000, 2**40, None, True, 0.5], "b": ("x", {3: "y"})}, protocol=2) */
static const char plain[] =
    "\x80\x02}q\x00(X\x01\x00\x00\x00\x61q\x01]q\x02(K\x01J\xfe\xff\xff\xffM,"
    "\x01Jp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01N"
    "\x88G?\xe0\x00\x00\x00\x00\x00\x00\x65X\x01\x00\x00\x00\x62q\x03X\x01\x00\x00\x00xq\x04}"
    "q\x05K\x03X\x01\x00\x00\x00yq\x06s\x86q\x07u.";

static void plain_values_are_read(void **state) {
    (void)state;
    json_t *json = NULL;
    assert_ok(read_bytes(plain, sizeof plain - 1, &json));
    const json_t *a = json_object_get(json, "a"), *b = json_object_get(json, "b");
    static const json_int_t numbers[] = {1, -2, 300, 70000, 1099511627776};
    assert_int_equal(json_array_size(a), 8);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(json_integer_value(json_array_get(a, i)), numbers[i]);
    assert_true(json_is_null(json_array_get(a, 5)) && json_is_true(json_array_get(a, 6)));
    assert_near(json_real_value(json_array_get(a, 7)), 0.5, 0);
    assert_string_equal(json_string_value(json_array_get(b, 0)), "x");
    assert_string_equal(json_string_value(json_object_get(json_array_get(b, 1), "3")), "y");
    json_decref(json);
}

/* Every beginning of it is refused, at its end. */
static void cut_pickles_are_refused(void **state) {
    (void)state;
    for (size_t size = 0; size + 1 < sizeof plain - 1; size++) {
        json_t *json = NULL;
        assert_int_equal(read_bytes(plain, size, &json), SL_EINVAL);
        assert_null(json);
    }
}

#define REFUSED(bytes, words) refused(bytes, sizeof bytes - 1, words)
static void refused(const char *bytes, size_t size, const char *words) {
    json_t *json = NULL;
    assert_int_equal(read_bytes(bytes, size, &json), SL_EINVAL);
    if (missing_fact(sl_error_text(), words) || strncmp(sl_error_text(), "dump: byte ", 11) != 0)
        fail_msg("'%s' does not say '%s'", sl_error_text(), words);
}

static void code_is_refused(void **state) {
    (void)state;
    REFUSED("\x80\x02"
            "cos\nsystem\n(X\x04\x00\x00\x00truetR.",
            "runs code"); /* os.system("true") */
    REFUSED("\x80\x04\x8c\x02os\x8c\x06system\x93.", "runs code");
    REFUSED("\x80\x02]q\x00\x81.", "runs code");
    REFUSED("\x80\x02]}b.", "runs code");
    REFUSED("(i__main__\nx\n.", "runs code");
    REFUSED("\x80\x02"
            "P0\n.",
            "no flight recorder writes");
}

static void what_holds_itself_is_refused(void **state) {
    (void)state;
    REFUSED("\x80\x02]q\x00h\x00\x61.", "holds itself");
    REFUSED("\x80\x02]q\x00]h\x00\x61\x61.", "holds itself");
    REFUSED("\x80\x02]q\x00]q\x01K\x01\x61\x61h\x01h\x00\x61.", ""); /* adds to a list that is used twice */
    REFUSED("\x80\x02}q\x00X\x01\x00\x00\x00\x61h\x00s.", "holds itself");
}

static void wrong_use_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"\x80\x02.",
                                        "\x80\x02K\x01K\x02.",
                                        "\x80\x02h\x05.",
                                        "\x80\x02"
                                        "e.",
                                        "\x80\x02(e.",
                                        "\x80\x02K\x01(e.",
                                        "\x80\x02\x86.",
                                        "\x80\x02]\x61.",
                                        "\x80\x02}N\x61.",
                                        "\x80\x02}K\x01s.",
                                        "\x80\x02}(K\x01u.",
                                        "\x80\x02}NNs.",
                                        "\x80\x02(.",
                                        "\x80\x02((t.",
                                        "\x80\x09.",
                                        "\x80\x02X\xff\xff\xff\xff"
                                        "a.",
                                        "\x80\x02q\x00."};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_t *json = NULL;
        size_t size = strlen(wrong[i]);
        if (read_bytes(wrong[i], size, &json) != SL_EINVAL)
            fail_msg("case %zu is accepted", i);
    }
}

static void deep_nesting_is_refused(void **state) {
    (void)state;
    char bytes[512] = "\x80\x02";
    size_t size = 2;
    json_t *json = NULL;
    for (int i = 0; i < 100; i++)
        bytes[size++] = ']';
    for (int i = 0; i < 99; i++)
        bytes[size++] = 'a';
    bytes[size++] = '.';
    assert_int_equal(read_bytes(bytes, size, &json), SL_EINVAL);
    assert_true(*sl_error_text());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_values_are_read), cmocka_unit_test(cut_pickles_are_refused),
        cmocka_unit_test(code_is_refused),       cmocka_unit_test(what_holds_itself_is_refused),
        cmocka_unit_test(wrong_use_is_refused),  cmocka_unit_test(deep_nesting_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
