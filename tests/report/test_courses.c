/* The words above the marks of a chart: each once, and whole. */
#include "check.h"

#include "report/courses.h"

static void marked(const sl_run_data_event *event, size_t events, const char *words) {
    sl_marks marks;
    sl_run_data_event copy[4];
    memcpy(copy, event, events * sizeof *event);
    const sl_run_data data = {.event = copy, .events = events};
    assert_ok(sl_marks_make(&data, &marks));
    assert_int_equal(marks.count, 1);
    assert_string_equal(marks.mark[0].sign, words);
    sl_marks_free(&marks);
}

static sl_run_data_event event_of(const char *kind, const char *decided) {
    static char none[1];
    return (sl_run_data_event){.iteration = 7,
                               .kind = (char *)kind,
                               .where = none,
                               .seen = none,
                               .decided = (char *)decided,
                               .why = none};
}

static void a_word_within_another_is_its_own(void **state) {
    (void)state;
    const sl_run_data_event ends = event_of("fault", "removed"), fault = event_of("fault", "added"),
                            verdict = event_of("verdict", ""), relief = event_of("relief", "");
    marked((sl_run_data_event[]){ends, fault}, 2, "fault ends, fault");
    marked((sl_run_data_event[]){fault, ends}, 2, "fault, fault ends");
    marked((sl_run_data_event[]){fault, verdict, fault, verdict}, 4, "fault, verdict");
    marked((sl_run_data_event[]){relief, ends, ends}, 3, "relief, fault ends");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_word_within_another_is_its_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
