/* What is known, told as a line, as metrics, as JSON and as a report, from views made by hand. */
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "check.h"
#include "notice/watch/view.h"
#include "notice/watch/watch_metrics.h"
#include "notice/watch/watch_report.h"
#include "notice/watch/words.h"

#include <jansson.h>
#include <regex.h>
#include <unistd.h>

static sl_suspect device(int rank) {
    return (sl_suspect){.component = SL_COMPONENT_DEVICE,
                        .rank = rank,
                        .from = -1,
                        .to = -1,
                        .measured = 12.5,
                        .expected = 5,
                        .cause = "cgroup \"quota\"",
                        .why = "throttled 40 % of the time"};
}

static sl_suspect link_of(int from, int to) {
    return (sl_suspect){
        .component = SL_COMPONENT_LINK, .rank = -1, .from = from, .to = to, .measured = 3, .expected = 1};
}

static sl_status_view healthy(void) {
    return (sl_status_view){.phase = SL_PHASE_TRACKING,
                            .nodes = 2,
                            .ranks = 4,
                            .period = 12,
                            .iteration = 99,
                            .time_ms = 8.25,
                            .level_ms = 8,
                            .onset = -1,
                            .calls = 4800,
                            .connected = 1};
}

static sl_status_view slow(void) {
    sl_status_view v = healthy();
    v.phase = SL_PHASE_VALIDATING;
    v.slow = 1, v.onset = 60, v.onsets = 1;
    v.level_ms = 20, v.time_ms = 20.5, v.healthy_ms = 8;
    v.suspect[v.suspects++] = device(3);
    v.suspect[v.suspects++] = link_of(2, 0);
    v.holds = 2, v.closed = 1, v.held_ms = 1500, v.lost = 7;
    return v;
}

static char *metrics_of(const sl_status_view *v) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    sl_metrics_write(out, v);
    fclose(out);
    return text;
}

static void must_have(const char *text, const char *line) {
    char whole[300];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    if (!strstr(text, whole))
        fail_msg("no line '%s' in\n%s", line, text);
}

/* The grammar of Prometheus' text format 0.0.4, line by line; help and type stand before the first sample. */
static void metrics_are_what_prometheus_reads(void **state) {
    (void)state;
    regex_t sample;
    assert_int_equal(regcomp(&sample,
                             "^([a-zA-Z_:][a-zA-Z0-9_:]*)(\\{[a-z]+=\"([^\"\\\\]|\\\\[n\"\\\\])*\""
                             "(,[a-z]+=\"([^\"\\\\]|\\\\[n\"\\\\])*\")*\\})? -?[0-9][0-9.e+-]*$",
                             REG_EXTENDED),
                     0);
    sl_status_view views[] = {healthy(), slow(), {.iteration = -1, .onset = -1}};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        char *text = metrics_of(&views[i]), *save, name[100] = "";
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            char kind[20];
            if (sscanf(line, "# HELP %99s", name) == 1)
                continue;
            char typed[100];
            if (sscanf(line, "# TYPE %99s %19s", typed, kind) == 2) {
                assert_string_equal(typed, name);
                assert_true(strcmp(kind, "gauge") == 0 || strcmp(kind, "counter") == 0);
                continue;
            }
            regmatch_t match[2];
            if (regexec(&sample, line, 2, match, 0) != 0)
                fail_msg("'%s' is no sample", line);
            assert_int_equal(match[0].rm_so, 0);
            assert_int_equal(match[1].rm_eo, strlen(name)); /* of the metric that was announced */
            assert_memory_equal(line, name, strlen(name));
        }
        free(text);
    }
    regfree(&sample);
}

static void metrics_hold_the_values(void **state) {
    (void)state;
    sl_status_view v = slow();
    char *text = metrics_of(&v);
    must_have(text, "slackline_iteration_seconds 0.0205");
    must_have(text, "slackline_iteration_healthy_seconds 0.008");
    must_have(text, "slackline_iterations_total 100");
    must_have(text, "slackline_slow 1");
    must_have(text, "slackline_suspect{component=\"device\",rank=\"3\",cause=\"cgroup \\\"quota\\\"\"} 1");
    must_have(text, "slackline_suspect{component=\"link\",from=\"2\",to=\"0\"} 1");
    must_have(text, "slackline_holds_total 2");
    must_have(text, "slackline_holds_closed_total 1");
    must_have(text, "slackline_held_seconds_total 1.5");
    must_have(text, "slackline_records_lost_total 7");
    must_have(text, "slackline_phase{phase=\"validating\"} 1");
    must_have(text, "slackline_phase{phase=\"tracking\"} 0");
    free(text);
}

static void a_time_that_is_not_known_has_no_sample(void **state) {
    (void)state;
    sl_status_view v = {.iteration = -1, .onset = -1};
    char *text = metrics_of(&v);
    assert_null(strstr(text, "\nslackline_iteration_seconds "));
    must_have(text, "slackline_iterations_total 0");
    free(text);
}

static void the_line_says_iteration_time_level_state_and_suspects(void **state) {
    (void)state;
    char text[1024];
    sl_status_view v = healthy();
    sl_view_line(&v, "", 200, 0, text, sizeof text);
    assert_says(text, "99 8.25 8.00 'tracking' 4");
    v = slow();
    sl_view_line(&v, "", 200, 0, text, sizeof text);
    assert_says(text, "99 20.50 8.00 'validating' 'rank 3' 'link 2 -> 0' 4");
    v.verdict[v.verdicts++] = device(3);
    sl_view_line(&v, "", 70, 0, text, sizeof text);
    assert_true(strlen(text) <= 70);
    assert_non_null(strstr(text, "rank 3"));
    sl_view_line(&v, "advice: balance", 200, 0, text, sizeof text);
    assert_says(text, "'rank 3' 'advice: balance' 4");
    for (int width = 1; width < 120; width++)
        assert_true(sl_view_line(&v, "advice: balance", width, 1, text, sizeof text) <= width);
}

static void nothing_is_drawn_where_there_is_no_terminal(void **state) {
    (void)state;
    char *text = NULL;
    size_t size;
    FILE *out = tmpfile();
    sl_view view;
    sl_status_view v = slow();
    sl_view_open(&view, out);
    sl_view_show(&view, &v, SL_SECOND);
    sl_event event = {
        .kind = SL_EVENT_ONSET, .iteration = 60, .from = -1, .to = -1, .rank = -1, .seen = "8 -> 20 ms"};
    sl_view_event(&view, &event);
    sl_view_close(&view);
    rewind(out);
    size_t room = 0;
    assert_true(getline(&text, &room, out) > 0);
    assert_string_equal(text, "slackline: iteration 60: onset: 8 -> 20 ms\n");
    assert_true(getline(&text, &room, out) < 0);
    (void)size;
    free(text);
    fclose(out);
}

static sl_event change(sl_event_kind kind, int iteration, double seconds) {
    return (sl_event){.kind = kind,
                      .iteration = iteration,
                      .time = (sl_time)(seconds * 1e9),
                      .from = -1,
                      .to = -1,
                      .rank = -1,
                      .seen = "measured"};
}

static void the_report_has_phases_with_their_suspects(void **state) {
    (void)state;
    char *const command[] = {"prog", "--n", "4", NULL};
    sl_watch_report report;
    assert_ok(sl_watch_report_open(&report, command, "job"));
    sl_status_view v = healthy();
    v.iteration = 50;
    sl_watch_report_view(&report, &v);
    sl_event onset = change(SL_EVENT_ONSET, 60, 1.5), relief = change(SL_EVENT_RELIEF, 90, 4.5);
    sl_event_fact(&onset, "former_ms", json_real(8));
    sl_event_fact(&onset, "iteration_ms", json_real(20));
    assert_ok(sl_watch_report_event(&report, &onset));
    v = slow();
    sl_watch_report_view(&report, &v);
    assert_ok(sl_watch_report_event(&report, &relief));
    v.slow = 0, v.level_ms = 8;
    sl_event tested = change(SL_EVENT_VERDICT, 91, 4.6);
    snprintf(tested.decided, sizeof tested.decided, "by validation");
    assert_ok(sl_watch_report_event(&report, &tested));
    v.verdict[v.verdicts++] = device(3); /* said after the relief: still of the slow phase */
    sl_watch_report_view(&report, &v);
    char *text, *json;
    assert_ok(sl_watch_report_texts(&report, 7, 6 * SL_SECOND, "", &text, &json));
    json_t *j = json_loads(json, 0, NULL);
    assert_non_null(j);
    assert_int_equal(json_integer_value(json_object_get(j, "exit_code")), 7);
    assert_string_equal(json_string_value(json_array_get(json_object_get(j, "program"), 2)), "4");
    json_t *phases = json_object_get(j, "phases");
    assert_int_equal(json_array_size(phases), 3);
    json_t *second = json_array_get(phases, 1);
    assert_string_equal(json_string_value(json_object_get(second, "state")), "slow");
    assert_int_equal(json_integer_value(json_object_get(second, "from_iteration")), 60);
    assert_int_equal(json_integer_value(json_object_get(second, "to_iteration")), 89);
    assert_near(json_real_value(json_object_get(second, "from_s")), 1.5, 1e-9);
    assert_near(json_real_value(json_object_get(second, "to_s")), 4.5, 1e-9);
    assert_near(json_real_value(json_object_get(second, "level_ms")), 20, 1e-9);
    assert_int_equal(json_array_size(json_object_get(second, "suspects")), 2);
    assert_int_equal(json_array_size(json_object_get(second, "verdicts")), 1);
    json_t *verdict = json_array_get(json_object_get(second, "verdicts"), 0);
    assert_int_equal(json_integer_value(json_object_get(verdict, "rank")), 3);
    assert_string_equal(json_string_value(json_object_get(verdict, "cause")), "cgroup \"quota\"");
    assert_int_equal(json_array_size(json_object_get(json_array_get(phases, 2), "verdicts")), 0);
    assert_int_equal(json_array_size(json_object_get(j, "notes")), 2); /* lost records, an open hold */
    json_decref(j);
    free(json);
    assert_true(line_has(text, "slow ", "60 89"));
    /* 30 iterations of 20 ms instead of 8 */
    assert_true(line_has(text, "  1. ", "60 89 1.5 4.5 'rank 3 x 2.50 (cgroup \"quota\")'"));
    assert_true(line_has(text, "0.36 s", "20 8")); /* its cost */
    assert_null(strstr(text, "  2. "));
    assert_true(line_has(text, "throttled", "'rank 3 x 2.50 (cgroup \"quota\")'"));
    free(text);
    sl_watch_report_close(&report);
}

static void relief_from_one_of_two_troubles_is_no_healthy_phase(void **state) {
    (void)state;
    char *const command[] = {"prog", NULL};
    sl_watch_report report;
    assert_ok(sl_watch_report_open(&report, command, "job"));
    sl_event onset = change(SL_EVENT_ONSET, 60, 1), more = change(SL_EVENT_ONSET, 70, 2);
    sl_event less = change(SL_EVENT_RELIEF, 80, 3), none = change(SL_EVENT_RELIEF, 90, 4);
    sl_status_view v = slow();
    const sl_event *events[] = {&onset, &more, &less, &none};
    for (int i = 0; i < 4; i++) {
        assert_ok(sl_watch_report_event(&report, events[i]));
        v.slow = i < 3;
        sl_watch_report_view(&report, &v);
    }
    assert_int_equal(report.phases, 5);
    static const int expected[] = {0, 1, 1, 1, 0};
    for (int i = 0; i < 5; i++)
        assert_int_equal(report.phase[i].slow, expected[i]);
    sl_watch_report_close(&report);
}

static void a_program_that_wavers_for_ever_keeps_its_newest_phases(void **state) {
    (void)state;
    char *const command[] = {"prog", NULL};
    char *text, *json;
    sl_watch_report report;
    assert_ok(sl_watch_report_open(&report, command, "job"));
    const int changes = 3000;
    for (int i = 1; i <= changes; i++) {
        sl_event event = change(i % 2 ? SL_EVENT_ONSET : SL_EVENT_RELIEF, i, i);
        assert_ok(sl_watch_report_event(&report, &event));
    }
    assert_in_range(report.phases, 100, 2000);
    assert_int_equal(report.phase[0].from, 0);
    assert_int_equal(report.phase[report.phases - 1].from, changes);
    assert_ok(sl_watch_report_texts(&report, 0, 6 * SL_SECOND, "", &text, &json));
    assert_says(text, "events.jsonl");
    free(text);
    free(json);
    sl_watch_report_close(&report);
}

static void what_could_not_be_told_is_in_the_report(void **state) {
    (void)state;
    char *const command[] = {"prog", NULL};
    sl_watch_report report;
    assert_ok(sl_watch_report_open(&report, command, "job"));
    sl_event onset = change(SL_EVENT_ONSET, 60, 1.5);
    assert_ok(sl_watch_report_event(&report, &onset));
    sl_status_view v = healthy();
    v.slow = 1;
    v.verdict[v.verdicts++] =
        (sl_suspect){.component = SL_COMPONENT_UNKNOWN, .rank = -1, .why = "because of fog"};
    sl_watch_report_view(&report, &v);
    char *text, *json;
    assert_ok(sl_watch_report_texts(&report, 0, 6 * SL_SECOND, "", &text, &json));
    assert_non_null(strstr(text, "because of fog"));
    free(text);
    free(json);
    sl_watch_report_close(&report);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_are_what_prometheus_reads),
        cmocka_unit_test(metrics_hold_the_values),
        cmocka_unit_test(a_time_that_is_not_known_has_no_sample),
        cmocka_unit_test(the_line_says_iteration_time_level_state_and_suspects),
        cmocka_unit_test(nothing_is_drawn_where_there_is_no_terminal),
        cmocka_unit_test(the_report_has_phases_with_their_suspects),
        cmocka_unit_test(relief_from_one_of_two_troubles_is_no_healthy_phase),
        cmocka_unit_test(a_program_that_wavers_for_ever_keeps_its_newest_phases),
        cmocka_unit_test(what_could_not_be_told_is_in_the_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
