/* Axes, escaping, and charts whose places are found by hand. */
#include "check.h"

#include "base/memory.h"
#include "plan/draw/axis.h"
#include "plan/draw/chart.h"
#include "plan/draw/chart_inside.h"
#include "plan/draw/escape.h"

#include <math.h>

static void assert_axis(double low, double high, int most, double from, double to, double step,
                        int decimals) {
    sl_chart_axis axis = sl_axis_around(low, high, most);
    assert_near(axis.low, from, 1e-12 * fabs(from));
    assert_near(axis.high, to, 1e-12 * fabs(to));
    assert_near(axis.step, step, 1e-12 * step);
    assert_int_equal(axis.decimals, decimals);
}

static void ticks_stand_at_round_numbers(void **state) {
    (void)state;
    assert_axis(0, 60, 10, 0, 60, 10, 0);
    assert_axis(0, 1603.8, 10, 0, 1800, 200, 0); /* 100 would take 17 steps */
    assert_axis(390, 450, 8, 390, 450, 10, 0);
    assert_axis(391, 449, 8, 390, 450, 10, 0);
    assert_axis(0.1, 0.7, 8, 0.1, 0.7, 0.1, 1);
    assert_axis(-30, 30, 8, -30, 30, 10, 0);
    assert_axis(-0.004, 0.0031, 4, -0.004, 0.004, 0.002, 3);
    assert_axis(1e9, 4e9, 6, 1e9, 4e9, 5e8, 0);
}

static void counts_have_no_tick_between_two_of_them(void **state) {
    (void)state;
    const struct {
        double low, high, from, to, step;
    } cases[] = {{0, 5, 0, 5, 1},   {0, 1, 0, 1, 1},   {7, 7, 7, 8, 1},          {3, 13, 3, 13, 1},
                 {0, 11, 0, 12, 2}, {0, 39, 0, 40, 5}, {0, 9999, 0, 10000, 1000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_chart_axis axis = sl_axis_whole(cases[i].low, cases[i].high, 10);
        assert_near(axis.low, cases[i].from, 0);
        assert_near(axis.high, cases[i].to, 0);
        assert_near(axis.step, cases[i].step, 0);
        assert_int_equal(axis.decimals, 0);
    }
}

static void labels_are_exact(void **state) {
    (void)state;
    static const char *const expected[] = {"-0.2", "-0.1", "0.0", "0.1", "0.2", "0.3"};
    sl_chart_axis axis = sl_axis_around(-0.2, 0.3, 5);
    assert_int_equal(axis.steps, 5);
    for (int i = 0; i <= axis.steps; i++) {
        char text[64];
        sl_axis_label(&axis, i, text, sizeof text);
        assert_string_equal(text, expected[i]);
    }
    assert_near(sl_axis_share(&axis, 0.05), 0.5, 1e-12);
}

static void an_axis_encloses_its_range_with_the_least_steps_that_fit(void **state) {
    (void)state;
    const char *text = getenv("SL_SEED");
    unsigned seed = text ? (unsigned)strtoul(text, NULL, 10) : 3;
    printf("SL_SEED=%u\n", seed);
    srand(seed);
    for (int round = 0; round < 10000; round++) {
        double scale = pow(10, rand() % 13 - 6), low = (rand() % 2001 - 1000) * scale,
               high = low + (1 + rand() % 1000) * scale;
        int most = 2 + rand() % 12;
        sl_chart_axis axis = sl_axis_around(low, high, most);
        double slip = axis.step * 1e-5, lead = axis.step / pow(10, floor(log10(axis.step) + 1e-9));
        assert_true(axis.low <= low + slip && low - axis.low < axis.step);
        assert_true(axis.high >= high - slip && axis.high - high < axis.step);
        assert_true(axis.steps >= 1 && axis.steps <= most);
        assert_near(axis.low + axis.steps * axis.step, axis.high, slip);
        assert_true(fabs(lead - 1) < 1e-6 || fabs(lead - 2) < 1e-6 || fabs(lead - 5) < 1e-6);
        double finer = axis.step / (fabs(lead - 5) < 1e-6 ? 2.5 : 2); /* would not have been enough */
        assert_true(ceil(high / finer - 1e-5) - floor(low / finer + 1e-5) > most - 1e-6);
    }
}

static void ranges_without_width_or_sense_still_give_an_axis(void **state) {
    (void)state;
    const double ranges[][2] = {{5, 5}, {0, 0},       {-1e-300, 1e-300}, {NAN, 3},      {-INFINITY, INFINITY},
                                {9, 1}, {1e12, 1e12}, {-7, -7},          {1, 1 + 1e-15}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        sl_chart_axis axis = sl_axis_around(ranges[i][0], ranges[i][1], 8);
        assert_true(isfinite(axis.low) && isfinite(axis.high) && axis.high > axis.low && axis.step > 0);
        assert_true(axis.steps >= 1 && axis.steps <= 8);
        if (ranges[i][0] == ranges[i][1])
            assert_true(axis.low < ranges[i][0] && ranges[i][0] < axis.high);
    }
}

static void assert_escaped(const char *text, const char *expected) {
    char *written = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&written, &size);
    assert_non_null(out);
    sl_put_escaped(out, text);
    fclose(out);
    assert_string_equal(written, expected);
    free(written);
}

#define BAD "\xef\xbf\xbd" /* U+FFFD */

static void text_stays_text_whatever_it_holds(void **state) {
    (void)state;
    assert_escaped("a<b>&\"c\"'", "a&lt;b&gt;&amp;&quot;c&quot;'");
    assert_escaped("\x01\x1b[0m\x7f", "[0m");
    assert_escaped("Zürich 東京 \xf0\x9f\x98\x80", "Zürich 東京 \xf0\x9f\x98\x80");
    assert_escaped("\xff|\x80|", BAD "|" BAD "|");
    assert_escaped("\xc0\xaf", BAD BAD);                 /* an overlong / */
    assert_escaped("\xed\xa0\x80", BAD BAD BAD);         /* a surrogate */
    assert_escaped("\xef\xbf\xbf", BAD BAD BAD);         /* U+FFFF */
    assert_escaped("\xf4\x90\x80\x80", BAD BAD BAD BAD); /* beyond U+10FFFF */
    assert_escaped("\xe6\x9d", BAD BAD);                 /* cut off at the end */
    assert_escaped("\xc3<", BAD "&lt;");
}

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        count++;
    return count;
}

/* The last `part` before the first `mark`. */
static const char *last_before(const char *text, const char *mark, const char *part) {
    const char *end = strstr(text, mark), *found = NULL;
    assert_non_null(end);
    for (const char *at = text; (at = strstr(at, part)) != NULL && at < end; at++)
        found = at;
    assert_non_null(found);
    return found;
}

static const char *const labels[] = {"0", "5", "10", "15"};

static void draw(const sl_chart *chart, char **svg) {
    size_t size = 0;
    FILE *out = open_memstream(svg, &size);
    assert_non_null(out);
    assert_ok(sl_draw_chart(chart, out));
    fclose(out);
}

static sl_chart chart_of(int points, const double *x, int count, const sl_chart_line *series) {
    return (sl_chart){.title = "a title",
                      .x_label = "delay (ms)",
                      .y_label = "makespan (ms)",
                      .points = points,
                      .x = x,
                      .label = labels,
                      .count = count,
                      .series = series};
}

/* The plot is from (76, 44) to (696, 404). x: 0 to 10. y: 0 to 10.3 with room, in steps of 2: 0 to 12; so
 * 10 stands at 404 - 360 * 10 / 12 = 104. Points may come in any order. */
static void points_stand_where_their_numbers_are(void **state) {
    (void)state;
    const double x[] = {10, 0}, y[] = {10, 0};
    sl_chart_line series = {.name = "a", .y = y};
    sl_chart chart = chart_of(2, x, 1, &series);
    char *svg = NULL;
    draw(&chart, &svg);
    assert_non_null(strstr(svg, "\"M76.00 404.00L696.00 104.00\""));
    assert_non_null(strstr(svg, "translate(696.00 104.00)"));
    assert_non_null(strstr(svg, "<title>a: 10 at 0</title>"));
    assert_non_null(strstr(svg, ">delay (ms)</text>"));
    assert_non_null(strstr(svg, ">makespan (ms)</text>"));
    free(svg);
}

/* x: 0 to 16 in steps of 2, so 8 stands in the middle, at 76 + 310. */
static void a_missing_value_is_a_gap(void **state) {
    (void)state;
    const double x[] = {0, 4, 8, 16}, y[] = {1, NAN, 4, 4};
    sl_chart_line series = {.name = "a", .y = y};
    sl_chart chart = chart_of(4, x, 1, &series);
    char *svg = NULL;
    draw(&chart, &svg);
    assert_non_null(strstr(svg, "\"M76.00 "));
    assert_non_null(strstr(svg, "M386.00 ")); /* the line starts again in the middle */
    assert_null(strstr(svg, "L386.00 "));
    assert_non_null(strstr(svg, "L696.00 "));
    assert_int_equal(count_of(svg, "<title>"), 3);
    assert_null(strstr(svg, "nan"));
    free(svg);
}

/* Dash pattern and marker together tell up to 35 series apart without colour. */
static void series_differ_without_colour(void **state) {
    (void)state;
    const double x[] = {0, 10}, y[] = {1, 2};
    sl_chart_line series[30];
    char names[30][8], *seen[30];
    for (int k = 0; k < 30; k++) {
        snprintf(names[k], sizeof names[k], "s%d", k);
        series[k] = (sl_chart_line){.name = names[k], .y = y};
    }
    sl_chart chart = chart_of(2, x, 30, series);
    char *svg = NULL;
    draw(&chart, &svg);
    const char *at = svg;
    for (int k = 0; k < 30; k++) { /* lines come first, one after the other; then the markers */
        at = strstr(at, "stroke-dasharray=\"");
        assert_non_null(at);
        seen[k] = strndup(at, strcspn(at + 18, "\"") + 18);
        at++;
    }
    char title[32];
    for (int k = 0; k < 30; k++) {
        snprintf(title, sizeof title, "<title>s%d: 1", k);
        const char *marker = last_before(svg, title, " d=\"");
        size_t length = strcspn(marker + 4, "\""), old = strlen(seen[k]);
        seen[k] = realloc(seen[k], old + length + 1);
        assert_non_null(seen[k]);
        memcpy(seen[k] + old, marker + 4, length);
        seen[k][old + length] = 0;
    }
    for (int i = 0; i < 30; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(seen[i], seen[k]);
    for (int k = 0; k < 30; k++)
        free(seen[k]);
    free(svg);
}

/* All series end at the same point; their names keep a distance of a row and stay inside the picture. */
static void names_do_not_lie_on_each_other(void **state) {
    (void)state;
    const double x[] = {0, 10}, y[] = {100, 100}, none[] = {NAN, NAN};
    sl_chart_line series[] = {{.name = "n0", .y = y},
                              {.name = "n1", .y = y},
                              {.name = "n2", .y = none},
                              {.name = "n3", .y = y},
                              {.name = "n4", .y = none}};
    sl_chart chart = chart_of(2, x, 5, series);
    char *svg = NULL;
    draw(&chart, &svg);
    double at[5], left;
    char name[16];
    for (int k = 0; k < 5; k++) {
        snprintf(name, sizeof name, ">n%d</text>", k);
        const char *text = last_before(svg, name, "<text");
        assert_int_equal(sscanf(text, "<text x=\"%lf\" y=\"%lf\"", &left, &at[k]), 2);
        assert_true(left > 696 && at[k] > 40 && at[k] < 412);
    }
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < i; k++)
            assert_true(fabs(at[i] - at[k]) > 14);
    free(svg);
}

/* 100 iterations on 620 wide plot are 6.2 apart; a sign of four letters is some 28 wide. Signs do not touch,
 * and where there is no room for all those of changes are there. */
static void changes_have_their_signs_where_there_is_no_room_for_all(void **state) {
    (void)state;
    enum { MARKS = 90 };
    static char name[MARKS][8];
    sl_chart_mark mark[MARKS];
    const double x[] = {0, 100}, y[] = {1, 2};
    const char *const label[] = {"a", "b"};
    const sl_chart_line series = {.name = "s", .y = y};
    for (int i = 0; i < MARKS; i++) {
        snprintf(name[i], sizeof name[i], "%d", 1000 + i);
        mark[i] = (sl_chart_mark){.x = 5 + i, .sign = name[i], .text = "t", .is_change = i % 10 == 3};
    }
    sl_chart chart = {.title = "",
                      .x_label = "",
                      .y_label = "",
                      .points = 2,
                      .x = x,
                      .x_is_whole = 1,
                      .label = label,
                      .count = 1,
                      .series = &series,
                      .marks = MARKS,
                      .mark = mark};
    const sl_chart_axis axis = sl_axis_whole(0, 100, 10);
    sl_chart_signs signs;
    assert_ok(sl_chart_signs_arrange(&chart, &axis, 76, 620, &signs));
    int shown = 0, changes = 0;
    for (int i = 0; i < MARKS; i++) {
        assert_true(signs.sign[i].drawn);
        assert_near(signs.sign[i].x, 76 + 6.2 * (5 + i), 1e-9);
        shown += signs.sign[i].row >= 0;
        changes += signs.sign[i].row >= 0 && mark[i].is_change;
        for (int k = 0; k < i; k++)
            if (signs.sign[i].row >= 0 && signs.sign[k].row == signs.sign[i].row)
                assert_true(signs.sign[i].x - signs.sign[k].x > 24); /* four letters of 6 */
    }
    assert_int_equal(changes, 9);
    assert_true(shown > 60 && shown < MARKS); /* four rows, each with every fifth */
    assert_int_equal(signs.rows, 4);
    sl_chart_signs_free(&signs);
    mark[0] = (sl_chart_mark){.x = 5, .sign = "100000-100009", .text = "t"};
    mark[1].x = 9; /* 25 after it: 13 letters do not fit next to it, but above */
    chart.marks = 2;
    assert_ok(sl_chart_signs_arrange(&chart, &axis, 76, 620, &signs));
    assert_string_equal(signs.sign[0].text, "100000-100009");
    assert_true(signs.sign[0].row != signs.sign[1].row && signs.sign[1].row >= 0);
    sl_chart_signs_free(&signs);
    const sl_draw_style bare = {.no_labels = 1};
    chart.style = &bare;
    assert_ok(sl_chart_signs_arrange(&chart, &axis, 76, 620, &signs));
    assert_true(signs.rows == 0 && signs.sign[0].drawn && signs.sign[0].row < 0);
    sl_chart_signs_free(&signs);
}

static void categories_have_markers_and_no_lines(void **state) {
    (void)state;
    static const char *const words[] = {"slow & steady", "<fast>", "batched", "inorder"};
    const double y[] = {1, 2, 3, NAN}, bound[] = {1, 1, 1, 1};
    sl_chart_line series[] = {{.name = "a<b", .y = y},
                              {.name = "lower bound", .y = bound, .is_reference = 1}};
    sl_chart chart = chart_of(4, NULL, 2, series);
    chart.label = words;
    char *svg = NULL;
    draw(&chart, &svg);
    assert_non_null(strstr(svg, ">slow &amp; steady<"));
    assert_non_null(strstr(svg, ">&lt;fast&gt;<"));
    assert_non_null(strstr(svg, ">a&lt;b<"));
    assert_int_equal(count_of(svg, "<title>"), 3);
    assert_int_equal(count_of(svg, "stroke=\"#555\""), 5); /* a piece at each, and the sample at its name */
    free(svg);
}

static void nothing_to_draw_is_drawn_too(void **state) {
    (void)state;
    const double x[] = {3}, y[] = {NAN};
    sl_chart_line series = {.name = "a", .y = y};
    for (int count = 0; count < 2; count++)
        for (int points = 0; points < 2; points++) {
            sl_chart chart = chart_of(points, x, count, &series);
            char *svg = NULL;
            draw(&chart, &svg);
            assert_int_equal(count_of(svg, "</svg>"), 1);
            assert_null(strstr(svg, "nan"));
            assert_null(strstr(svg, "inf"));
            free(svg);
        }
}

/* 0 to 900 in steps of 100 on 560; names of at most 4 letters take 4 * 7.2 + 20 = 48.8 on the left. */
static void bars_are_as_long_as_their_values(void **state) {
    (void)state;
    sl_bar bar[] = {{.name = "one", .value = 450},
                    {.name = "two", .value = 900, .note = "by <b>"},
                    {.name = "bad", .value = NAN, .note = "why & how"}};
    sl_bars bars = {
        .title = "t<", .x_label = "ms", .count = 3, .bar = bar, .reference = 450, .reference_name = "bound"};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_ok(sl_draw_bars(&bars, out));
    fclose(out);
    assert_int_equal(count_of(text, "<rect x=\"48.8\""), 2);
    assert_non_null(strstr(text, "width=\"280.00\""));
    assert_non_null(strstr(text, "width=\"560.00\""));
    assert_non_null(strstr(text, ">900 (by &lt;b&gt;)<"));
    assert_non_null(strstr(text, ">why &amp; how<"));
    assert_non_null(strstr(text, ">t&lt;<"));
    assert_non_null(strstr(text, "M328.8 ")); /* the reference */
    free(text);
}

static void a_full_device_is_an_error(void **state) {
    (void)state;
    const double x[] = {0, 1}, y[] = {1, 2};
    sl_chart_line series = {.name = "a", .y = y};
    sl_bar bar = {.name = "one", .value = 1};
    sl_chart chart = chart_of(2, x, 1, &series);
    sl_bars bars = {.title = "t", .x_label = "ms", .count = 1, .bar = &bar, .reference = NAN};
    FILE *full = fopen("/dev/full", "w");
    if (!full)
        skip();
    assert_fails(sl_draw_chart(&chart, full), SL_ESYS, "cannot be written");
    assert_fails(sl_draw_bars(&bars, full), SL_ESYS, "cannot be written");
    fclose(full);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    const double x[] = {0, 1}, y[] = {1, 2};
    sl_chart_line series = {.name = "a", .y = y};
    sl_chart chart = chart_of(2, x, 1, &series);
    for (long n = 0;; n++) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        assert_non_null(out);
        sl_alloc_fail_at(n);
        sl_status status = sl_draw_chart(&chart, out);
        sl_alloc_fail_at(-1);
        fclose(out);
        free(text);
        if (status == SL_OK)
            break;
        assert_int_equal(status, SL_ENOMEM);
        assert_true(n < 10);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_stand_at_round_numbers),
        cmocka_unit_test(counts_have_no_tick_between_two_of_them),
        cmocka_unit_test(labels_are_exact),
        cmocka_unit_test(an_axis_encloses_its_range_with_the_least_steps_that_fit),
        cmocka_unit_test(ranges_without_width_or_sense_still_give_an_axis),
        cmocka_unit_test(text_stays_text_whatever_it_holds),
        cmocka_unit_test(points_stand_where_their_numbers_are),
        cmocka_unit_test(a_missing_value_is_a_gap),
        cmocka_unit_test(series_differ_without_colour),
        cmocka_unit_test(names_do_not_lie_on_each_other),
        cmocka_unit_test(changes_have_their_signs_where_there_is_no_room_for_all),
        cmocka_unit_test(categories_have_markers_and_no_lines),
        cmocka_unit_test(nothing_to_draw_is_drawn_too),
        cmocka_unit_test(bars_are_as_long_as_their_values),
        cmocka_unit_test(a_full_device_is_an_error),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
