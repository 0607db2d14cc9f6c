/* A suspect's line. */
#include "check.h"

#include "notice/detect/suspect.h"

static void a_line_that_does_not_fit_ends_after_a_whole_word(void **state) {
    (void)state;
    sl_suspect s = {
        .component = SL_COMPONENT_HOST,
        .rank = 0,
        .from = -1,
        .to = -1,
        .cause = "CPU contention: co-located load of process 4242 (another-program)",
        .why = "all 8 devices of node-17.cluster.example.org are slow, and so are all its links to other "
               "hosts; rank 3: throttled 50 % of the time, without a processor 62 % (88.1 of 99.6 GFLOP/s)"};
    char text[256], whole[512]; /* an event's, and a page's */
    sl_suspect_text(&s, whole, sizeof whole);
    assert_string_equal(whole + strlen(whole) - strlen("(88.1 of 99.6 GFLOP/s)"), "(88.1 of 99.6 GFLOP/s)");
    sl_suspect_text(&s, text, sizeof text);
    size_t kept = strlen(text) - strlen("...");
    assert_string_equal(text + kept, "...");
    assert_memory_equal(text, whole, kept);
    assert_int_equal(whole[kept], ' ');
    assert_true(kept > 220); /* a word or two are missing, not half a line */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_that_does_not_fit_ends_after_a_whole_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
