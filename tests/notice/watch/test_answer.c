/* The first lines of report.txt: what an operator reads at night. */
#include "check.h"

#include "notice/watch/watch_report.h"

static char *const command[] = {"./program", NULL};

static sl_suspect of(sl_component component, int rank) {
    sl_suspect s = {.component = component,
                    .rank = rank,
                    .from = -1,
                    .to = -1,
                    .measured = 30,
                    .expected = 10,
                    .why = "why"};
    return s;
}

/* A phase of ten iterations, each `ms`, that begins at iteration and second `from`; it may have a verdict. */
static void phase(sl_watch_report *r, int slow, int from, double ms, const sl_suspect *verdict,
                  int verdicts) {
    sl_status_view view = {.period = 4,
                           .iteration = from + 9,
                           .level_ms = ms,
                           .slow = slow,
                           .verdicts = verdicts,
                           .calls = 1,
                           .onset = -1};
    sl_event event = sl_event_of(slow ? SL_EVENT_ONSET : SL_EVENT_RELIEF, from * SL_SECOND, from);
    for (int i = 0; i < verdicts; i++)
        view.verdict[i] = verdict[i];
    sl_event_fact(&event, "former_ms", json_real(r->phase[r->phases - 1].level_ms));
    sl_event_fact(&event, "iteration_ms", json_real(ms));
    if (from > 0)
        assert_ok(sl_watch_report_event(r, &event));
    if (verdicts > 0) {
        event = sl_event_of(SL_EVENT_VERDICT, from * SL_SECOND, from);
        sl_event_say(&event, "", "by validation", NULL);
        assert_ok(sl_watch_report_event(r, &event));
    }
    sl_watch_report_view(r, &view);
}

/* The lines of the answer, without its head. */
static int answer(sl_watch_report *r, char *line, size_t size, int at) {
    char *text, *json, *next;
    int count = 0;
    assert_ok(sl_watch_report_texts(r, 0, 100 * SL_SECOND, "", &text, &json));
    json_t *report = json_loads(json, 0, NULL), *lines = json_object_get(report, "answer");
    line[0] = 0;
    for (char *from = strchr(text, '\n') + 1; *from != '\n'; from = next + 1, count++) {
        next = strchr(from, '\n');
        assert_says(from, json_string_value(json_array_get(lines, (size_t)count))); /* the page shows these */
        if (count == at)
            snprintf(line, size, "%.*s", (int)(next - from), from);
    }
    assert_int_equal(json_array_size(lines), count);
    json_decref(report);
    free(text);
    free(json);
    return count;
}

static void a_component_has_one_line_however_often_it_is_slow(void **state) {
    (void)state;
    sl_watch_report r;
    char line[600];
    const sl_suspect rank = of(SL_COMPONENT_DEVICE, 2);
    assert_ok(sl_watch_report_open(&r, command, "job"));
    for (int i = 0; i < 3; i++) {
        phase(&r, 0, 20 * i, 10, NULL, 0);
        phase(&r, 1, 20 * i + 10, 30, &rank, 1);
    }
    assert_int_equal(answer(&r, line, sizeof line, 0), 1);
    assert_says(line,
                "  1. iteration 10 to 19, 10.0 to 20.0 s, and 2 more times until iteration 59, 100.0 s: "
                "device of rank 2 x 3.00: why");
    assert_says(line, "cost: 0.6 s (30 instead of 10 ms per iteration)"); /* 3 x 10 x 20 ms */
    assert_says(line, "certainty: tested");
    sl_watch_report_close(&r);
}

static void phases_without_a_component_share_the_last_line_and_have_no_number(void **state) {
    (void)state;
    sl_watch_report r;
    char line[600];
    const sl_suspect rank = of(SL_COMPONENT_DEVICE, 1), nothing = of(SL_COMPONENT_UNKNOWN, -1);
    assert_ok(sl_watch_report_open(&r, command, "job"));
    phase(&r, 0, 0, 10, NULL, 0);
    phase(&r, 1, 10, 30, &nothing, 1);
    phase(&r, 0, 20, 10, NULL, 0);
    phase(&r, 1, 30, 30, &rank, 1);
    phase(&r, 0, 40, 10, NULL, 0);
    phase(&r, 1, 50, 30, NULL, 0);
    assert_int_equal(answer(&r, line, sizeof line, 0), 2);
    assert_says(line, "  1. iteration 30 to 39, 30.0 to 40.0 s: device of rank 1");
    assert_int_equal(answer(&r, line, sizeof line, 1), 2);
    assert_says(line,
                "  cause not found: iteration 10 to 19, 10.0 to 20.0 s, and 1 more time until iteration 59");
    assert_says(line, "certainty: not known");
    sl_watch_report_close(&r);
}

/* Both have a line, and their common cost is counted once; the phase after it is slow because of them, too.
 */
static void two_components_of_one_phase_are_two_incidents(void **state) {
    (void)state;
    sl_watch_report r;
    char line[600];
    const sl_suspect both[2] = {of(SL_COMPONENT_DEVICE, 3), of(SL_COMPONENT_DEVICE, 0)};
    assert_ok(sl_watch_report_open(&r, command, "job"));
    phase(&r, 0, 0, 10, NULL, 0);
    phase(&r, 1, 10, 30, both, 2);
    phase(&r, 1, 20, 40, NULL, 0);
    assert_int_equal(answer(&r, line, sizeof line, 0), 2);
    assert_says(line, "  1. iteration 10 to 29, 10.0 to 100.0 s: device of rank 3");
    assert_says(line, "cost: 0.5 s (40 instead of 10 ms per iteration)"); /* 10 x 20 + 10 x 30 ms */
    assert_int_equal(answer(&r, line, sizeof line, 1), 2);
    assert_says(line, "  2. iteration 10 to 29");
    assert_says(line, "cost: with incident 1");
    sl_watch_report_close(&r);
}

/* The level before an onset includes slow iterations until the onset is seen: after five healthy ones it may be
 * the slow level. */
static void the_cost_counts_from_the_level_that_the_onset_was_compared_with(void **state) {
    (void)state;
    sl_watch_report r;
    char line[600];
    sl_status_view view = {.period = 4, .iteration = 15, .level_ms = 203.8, .calls = 1, .onset = -1};
    assert_ok(sl_watch_report_open(&r, command, "job"));
    phase(&r, 0, 0, 103.8, NULL, 0);
    sl_watch_report_view(&r, &view);
    sl_event event = sl_event_of(SL_EVENT_ONSET, 10 * SL_SECOND, 10);
    sl_event_fact(&event, "former_ms", json_real(103.8));
    sl_event_fact(&event, "iteration_ms", json_real(203.9));
    assert_ok(sl_watch_report_event(&r, &event));
    view.slow = 1;
    view.level_ms = 203.9;
    view.iteration = 19;
    sl_watch_report_view(&r, &view);
    assert_int_equal(answer(&r, line, sizeof line, 0), 1);
    assert_says(line, "cost: 1 s (203.9 instead of 103.8 ms per iteration)"); /* 10 x 100.1 ms */
    assert_near(r.phase[0].level_ms, 103.8, 0);
    sl_watch_report_close(&r);
}

/* Iterations changed their shape while they were slow: the level before the onset is a slow one, too. */
static void a_cost_without_a_healthy_level_is_not_known(void **state) {
    (void)state;
    sl_watch_report r;
    char line[600];
    sl_status_view view = {.period = 6, .iteration = 39, .level_ms = 203.8, .calls = 1, .onset = -1};
    assert_ok(sl_watch_report_open(&r, command, "job"));
    phase(&r, 0, 0, 103.8, NULL, 0);
    sl_event event = sl_event_of(SL_EVENT_TRACKED, 20 * SL_SECOND, 20);
    sl_event_say(&event, "an iteration has 6 calls", "levels start over", NULL);
    assert_ok(sl_watch_report_event(&r, &event));
    sl_watch_report_view(&r, &view);
    event = sl_event_of(SL_EVENT_ONSET, 40 * SL_SECOND, 40);
    sl_event_say(&event, "ranks compute longer than before iterations changed", "profiling", NULL);
    assert_ok(sl_watch_report_event(&r, &event));
    view.slow = 1;
    view.level_ms = 203.9;
    view.iteration = 49;
    sl_watch_report_view(&r, &view);
    assert_int_equal(answer(&r, line, sizeof line, 0), 1);
    assert_says(line, "cost: not known, because no healthy level below it was seen");
    sl_watch_report_close(&r);
}

static void nothing_slow_is_said_in_one_line(void **state) {
    (void)state;
    sl_watch_report r;
    char line[600];
    assert_ok(sl_watch_report_open(&r, command, "job"));
    phase(&r, 0, 0, 10, NULL, 0);
    assert_int_equal(answer(&r, line, sizeof line, 0), 1);
    assert_string_equal(line, "  nothing became slow");
    sl_watch_report_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_component_has_one_line_however_often_it_is_slow),
        cmocka_unit_test(phases_without_a_component_share_the_last_line_and_have_no_number),
        cmocka_unit_test(two_components_of_one_phase_are_two_incidents),
        cmocka_unit_test(the_cost_counts_from_the_level_that_the_onset_was_compared_with),
        cmocka_unit_test(a_cost_without_a_healthy_level_is_not_known),
        cmocka_unit_test(nothing_slow_is_said_in_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
