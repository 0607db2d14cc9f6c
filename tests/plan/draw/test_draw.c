/* Charts of small timelines, drawn by hand. */
#include "check.h"

#include "base/memory.h"
#include "plan/draw/escape.h"
#include "plan/draw/gantt_text.h"
#include "plan/draw/html.h"
#include "plan/draw/svg.h"
#include "plan/draw/trace.h"

#include <limits.h>

static sl_span span(int rank, int kind, int microbatch, sl_time start, sl_time end) {
    return (sl_span){.rank = rank,
                     .op = {.stage = rank, .microbatch = microbatch, .kind = kind},
                     .start = start,
                     .end = end};
}

static char *draw_text(const sl_timeline *t, int width, int colour) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    sl_text_options options = {.width = width, .colour = colour};
    assert_ok(sl_draw_text(t, &options, out));
    fclose(out);
    return text;
}

static char *draw_svg(const sl_timeline *t, const char *title, int count) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    const sl_timeline *timelines[2] = {t, t};
    const char *titles[2] = {title, title};
    assert_ok(sl_draw_svg(timelines, titles, count, out));
    fclose(out);
    return text;
}

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        count++;
    return count;
}

/* 40 columns less 10 of margin are 30, one for each ms; "15 ms" is centred on column 25. */
static void a_column_is_a_share_of_the_time(void **state) {
    (void)state;
    sl_span spans[] = {span(0, SL_F, 7, 0, 5 * SL_MS), span(0, SL_I, 1234, 10 * SL_MS, 13 * SL_MS),
                       span(0, SL_W, 1, 13 * SL_MS, 14 * SL_MS), span(0, SL_B, 2, 28 * SL_MS, 30 * SL_MS),
                       span(1, SL_F, 0, 29 * SL_MS, 30 * SL_MS)};
    sl_timeline t = {.ranks = 2, .spans = 5, .span = spans};
    char *text = draw_text(&t, 40, 0);
    assert_string_equal(text, "rank 0    F7---.....I34W..............B2\n"
                              "rank 1    .............................F\n"
                              "          0 ms         15 ms       30 ms\n");
    free(text);
}

/* Again a column for each ms. Rank 0 holds stages 0 and 2, rank 1 stage 1. */
static void stages_pairs_parts_and_collectives_have_signs(void **state) {
    (void)state;
    sl_span spans[] = {span(0, SL_F, 1, 0, 4 * SL_MS),           span(0, SL_F, 2, 4 * SL_MS, 10 * SL_MS),
                       span(0, SL_B, 1, 4 * SL_MS, 10 * SL_MS),  span(0, SL_W, 0, 10 * SL_MS, 13 * SL_MS),
                       span(0, SL_W, 0, 13 * SL_MS, 16 * SL_MS), span(1, SL_F, 0, 5 * SL_MS, 8 * SL_MS)};
    sl_span beside[] = {span(1, SL_GATHER, -1, 0, 6 * SL_MS), span(0, SL_REDUCE, -1, 12 * SL_MS, 30 * SL_MS)};
    spans[1].op.paired = 1;
    spans[2].op.stage = 2;
    spans[4].op.part = 1;
    sl_timeline t = {.ranks = 2, .spans = 6, .span = spans, .collectives = 2, .collective = beside};
    char *text = draw_text(&t, 40, 0);
    assert_string_equal(text, "rank 0    F1--F2&b1-W0-:--rrrrrrrrrrrrrr\n"
                              "rank 1    gggggF0-......................\n"
                              "          0 ms         15 ms       30 ms\n"
                              "capitals: first stage; small: second\n"
                              ": the next part of the same op\n"
                              "& forward and backward, overlapped\n"
                              "g gather, r reduction, where idle\n");
    free(text);
    sl_span three[] = {span(0, SL_F, 12, 0, 4 * SL_MS), span(0, SL_F, 12, 4 * SL_MS, 7 * SL_MS),
                       span(0, SL_F, 12, 7 * SL_MS, 8 * SL_MS), span(0, SL_B, 12, 8 * SL_MS, 30 * SL_MS)};
    three[1].op.stage = 4;
    three[2].op.stage = three[3].op.stage = 8;
    t = (sl_timeline){.ranks = 1, .spans = 4, .span = three};
    text = draw_text(&t, 40, 0);
    assert_string_equal(text, "rank 0    Fa12Fb2FBc12------------------\n"
                              "          0 ms         15 ms       30 ms\n"
                              "second letter: a rank's stage, a: first\n");
    free(text);
}

static void colour_changes_nothing_but_escapes_and_idle(void **state) {
    (void)state;
    sl_span spans[] = {span(0, SL_F, 0, 0, 10), span(0, SL_I, 0, 20, 30), span(0, SL_W, 0, 30, 40)};
    sl_timeline t = {.ranks = 1, .spans = 3, .span = spans};
    char *plain = draw_text(&t, 72, 0), *colour = draw_text(&t, 72, 1);
    assert_null(strchr(plain, '\033'));
    assert_non_null(strchr(colour, '\033'));
    size_t kept = 0;
    for (const char *c = colour; *c; c++) {
        if (*c == '\033') {
            c = strchr(c, 'm');
            continue;
        }
        assert_true(*c == plain[kept] || (*c == ' ' && plain[kept] == '.'));
        kept++;
    }
    assert_int_equal(kept, strlen(plain));
    free(plain);
    free(colour);
}

static void no_line_is_longer_than_the_terminal(void **state) {
    (void)state;
    static sl_span spans[1024];
    for (int r = 0; r < 1024; r++) /* one op of no length, one for hours; measured ones may begin before 0 */
        spans[r] = span(r, SL_F, INT32_MAX, r % 2 ? -5 : 10, r % 2 ? SL_SECOND * 9999999 : 10);
    sl_timeline t = {.ranks = 1024, .spans = 1024, .span = spans, .measured = 1};
    static const int widths[] = {-1, 40, 41, 99, 500, 100000};
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        size_t most = widths[i] < 40 ? 40 : widths[i] > 500 ? 500 : (size_t)widths[i];
        char *text = draw_text(&t, widths[i], 0);
        int lines = 0;
        for (const char *line = text; *line; line += strcspn(line, "\n") + 1, lines++) {
            assert_true(strcspn(line, "\n") <= most);
            if (lines < 1024)
                assert_non_null(
                    memchr(line + 10, 'F', strcspn(line, "\n") - 10)); /* even the shortest op is seen */
        }
        assert_int_equal(lines, 1025);
        free(text);
    }
}

static void an_empty_timeline_is_drawn_too(void **state) {
    (void)state;
    sl_timeline t = {.ranks = 1};
    char *text = draw_text(&t, 40, 0), *svg = draw_svg(&t, "nothing", 1);
    assert_string_equal(text, "rank 0    ..............................\n");
    assert_int_equal(count_of(svg, "<title>"), 0);
    assert_int_equal(count_of(svg, "</svg>"), 1);
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
    free(text);
    free(svg);
}

/* 100 ms on 1,100 units behind 70 of labels: 10 ms are 110. */
static void boxes_stand_where_their_times_are(void **state) {
    (void)state;
    sl_span spans[] = {span(0, SL_F, 3, 0, 10 * SL_MS), span(1, SL_B, 3, 30 * SL_MS, 100 * SL_MS)};
    sl_transfer transfers[] = {
        {.from = 0, .to = 1, .op = spans[0].op, .start = 10 * SL_MS, .end = 12 * SL_MS, .arrive = 30 * SL_MS},
        {.from = 1,
         .to = 0,
         .op = spans[1].op,
         .start = 50 * SL_MS,
         .end = 50 * SL_MS,
         .arrive = 50 * SL_MS}};
    sl_timeline t = {.ranks = 2, .spans = 2, .span = spans, .transfers = 2, .transfer = transfers};
    char *svg = draw_svg(&t, "a", 1);
    assert_non_null(strstr(svg, "<rect x=\"70.00\""));
    assert_non_null(strstr(svg, "width=\"110.00\""));
    assert_non_null(strstr(svg, "<rect x=\"400.00\""));
    assert_non_null(strstr(svg, "width=\"770.00\""));
    assert_true(line_has(svg, "<title>F3 ", "0.000 10.000"));
    assert_int_equal(count_of(svg, "<title>"), 2);
    assert_non_null(strstr(
        svg, "M180.00 ")); /* the message leaves at 10 ms and arrives at 30; the instant one is left out */
    assert_non_null(strstr(svg, "L400.00 "));
    assert_null(strstr(svg, "L620.00 "));
    assert_non_null(strstr(svg, ">F "));
    assert_non_null(strstr(svg, ">B "));
    assert_null(strstr(svg, ">W "));
    free(svg);
    svg = draw_svg(&t, "a", 2);
    assert_int_equal(count_of(svg, "<title>"), 4);
    free(svg);
}

/* 100 ms on 1,100 units: 10 ms are 110. Rows of 26 from 34 on, so boxes of 20 at 37 and 63. */
static void pairs_collectives_and_stages_are_told_apart(void **state) {
    (void)state;
    sl_span spans[] = {span(0, SL_F, 0, 0, 10 * SL_MS), span(0, SL_F, 1, 10 * SL_MS, 40 * SL_MS),
                       span(0, SL_B, 0, 10 * SL_MS, 40 * SL_MS), span(1, SL_F, 0, 10 * SL_MS, 20 * SL_MS)};
    sl_span reduce = span(0, SL_REDUCE, -1, 40 * SL_MS, 100 * SL_MS);
    spans[1].op.paired = 1;
    spans[2].op.stage = 3; /* rank 0 holds stages 0 and 3 */
    sl_timeline t = {.ranks = 2, .spans = 4, .span = spans, .collectives = 1, .collective = &reduce};
    char *svg = draw_svg(&t, "a", 1);
    assert_non_null(strstr(svg, "<rect x=\"70.00\" y=\"37.0\" width=\"110.00\" height=\"20\""));
    assert_non_null(
        strstr(svg, "<rect x=\"180.00\" y=\"37.0\" width=\"330.00\" height=\"10\"")); /* F above */
    assert_non_null(
        strstr(svg, "<rect x=\"180.00\" y=\"47.0\" width=\"330.00\" height=\"10\"")); /* B below */
    assert_non_null(strstr(svg, "<rect x=\"510.00\" y=\"58.0\" width=\"660.00\""));   /* next to the ops */
    assert_true(line_has(svg, "<title>reduce ", "0 40.000 100.000"));
    assert_null(strstr(svg, "height=\"10\" fill=\"#cc79a7\""));    /* B of the second stage is paler ... */
    assert_int_equal(count_of(svg, "fill=\"#8ccbf0\" stroke"), 3); /* ... than those of the first */
    assert_non_null(strstr(svg, ">paler: further stages of a rank<"));
    assert_non_null(strstr(svg, ">reduction<"));
    assert_non_null(strstr(svg, ">idle<"));
    assert_null(strstr(svg, "critical"));
    assert_null(strstr(svg, "gather"));
    free(svg);
}

static void the_critical_path_is_outlined(void **state) {
    (void)state;
    sl_span spans[] = {span(0, SL_F, 0, 0, 10 * SL_MS), span(0, SL_F, 1, 10 * SL_MS, 20 * SL_MS),
                       span(1, SL_F, 0, 30 * SL_MS, 100 * SL_MS)};
    sl_transfer transfer = {
        .to = 1, .op = spans[0].op, .start = 10 * SL_MS, .end = 10 * SL_MS, .arrive = 30 * SL_MS};
    sl_timeline t = {.ranks = 2, .spans = 3, .span = spans, .transfers = 1, .transfer = &transfer};
    unsigned char on_path[] = {1, 0, 1}, sent[] = {1};
    sl_highlight highlight = {.span = on_path, .transfer = sent};
    sl_svg_chart chart = {.timeline = &t, .title = "a", .highlight = &highlight};
    char *svg = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&svg, &size);
    assert_non_null(out);
    assert_ok(sl_draw_svg_charts(&chart, 1, NULL, out));
    fclose(out);
    assert_int_equal(count_of(svg, "fill=\"none\" stroke=\"#000\""), 2 + 1); /* and one in the legend */
    assert_non_null(strstr(svg, "<rect x=\"70.80\""));
    assert_non_null(strstr(svg, "<rect x=\"400.80\""));
    assert_null(strstr(svg, "<rect x=\"180.80\""));
    assert_int_equal(count_of(svg, "stroke=\"#000\" stroke-width=\"2\""), 1); /* the message */
    assert_non_null(strstr(svg, ">critical path<"));
    free(svg);
}

static void a_title_is_text_whatever_it_holds(void **state) {
    (void)state;
    sl_timeline t = {.ranks = 1};
    char *svg = draw_svg(&t, "<script>\"a\" & \x01\x1b'b'</script>", 1);
    assert_null(strstr(svg, "<script"));
    assert_non_null(strstr(svg, "&lt;script&gt;&quot;a&quot; &amp; 'b'&lt;/script&gt;"));
    free(svg);
}

static void a_full_device_is_an_error(void **state) {
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    if (!full)
        skip();
    setvbuf(full, NULL, _IONBF, 0);
    sl_span spans[] = {span(0, SL_F, 0, 0, 10)};
    sl_timeline t = {.ranks = 1, .spans = 1, .span = spans};
    const sl_timeline *timelines = &t;
    const char *title = "a";
    sl_text_options options = {.width = 80};
    assert_fails(sl_draw_text(&t, &options, full), SL_ESYS, "cannot be written");
    assert_fails(sl_draw_svg(&timelines, &title, 1, full), SL_ESYS, "cannot be written");
    fclose(full);
}

/* All charts of a plan, one after the other. */
static sl_status draw_all(const sl_problem *p, const sl_plan *plan, FILE *out) {
    sl_highlight highlight = {0};
    sl_svg_chart chart = {.timeline = &plan->timeline, .title = "a", .highlight = &highlight};
    sl_text_options options = {.width = 80};
    sl_status status = sl_highlight_make(p, &plan->program, &plan->timeline, &highlight);
    if (status == SL_OK)
        status = sl_draw_svg_charts(&chart, 1, NULL, out);
    sl_highlight_free(&highlight);
    SL_TRY(status);
    SL_TRY(sl_draw_text(&plan->timeline, &options, out));
    SL_TRY(sl_trace_plan(p, &plan->program, &plan->timeline, out));
    return sl_draw_html(p, plan, "a", out);
}

static void every_failed_allocation_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    int failures = 0, done = 0;
    sl_problem p;
    sl_plan plan;
    FILE *out = fopen("/dev/null", "w");
    assert_non_null(out);
    assert_ok(sl_problem_make(3, 3, 4, &p));
    for (int s = 0; s < 3; s++)
        p.time[SL_F][s] = p.time[SL_I][s] = p.time[SL_W][s] = p.reduce[s] = 10;
    assert_ok(sl_plan_make(&p, "zb-h1", &plan));
    for (long n = 0; !done && n < 1000; n++) {
        sl_alloc_fail_at(n);
        sl_status status = draw_all(&p, &plan, out);
        sl_alloc_fail_at(-1);
        done = status == SL_OK;
        if (!done)
            assert_int_equal(status, SL_ENOMEM);
        failures += !done;
    }
    assert_true(done && failures > 15);
    fclose(out);
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

/* A file name may hold any bytes; the page must stay what it is. Written by hand from RFC 3629 and 8259. */
static void text_is_escaped_for_page_and_data(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"a<b>&\"c\"", "a&lt;b&gt;&amp;&quot;c&quot;", "\"a\\u003cb\\u003e\\u0026\\u0022c\\u0022\""},
        {"\x01\t\x7fx\\", "x\\", "\"\\u0001\\u0009\\u007fx\\u005c\""},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
         "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {"\xff", "\xef\xbf\xbd", "\"\\ufffd\""},                        /* no character begins so */
        {"\xc3", "\xef\xbf\xbd", "\"\\ufffd\""},                        /* cut off */
        {"\xc0\xbc", "\xef\xbf\xbd\xef\xbf\xbd", "\"\\ufffd\\ufffd\""}, /* < in two bytes */
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
         "\"\\ufffd\\ufffd\\ufffd\""}, /* a surrogate */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int json = 0; json < 2; json++) {
            char *text = NULL;
            size_t size = 0;
            FILE *out = open_memstream(&text, &size);
            assert_non_null(out);
            (json ? sl_put_json : sl_put_escaped)(out, cases[i][0]);
            fclose(out);
            assert_string_equal(text, cases[i][1 + json]);
            free(text);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_column_is_a_share_of_the_time),
        cmocka_unit_test(stages_pairs_parts_and_collectives_have_signs),
        cmocka_unit_test(colour_changes_nothing_but_escapes_and_idle),
        cmocka_unit_test(no_line_is_longer_than_the_terminal),
        cmocka_unit_test(an_empty_timeline_is_drawn_too),
        cmocka_unit_test(boxes_stand_where_their_times_are),
        cmocka_unit_test(pairs_collectives_and_stages_are_told_apart),
        cmocka_unit_test(the_critical_path_is_outlined),
        cmocka_unit_test(a_title_is_text_whatever_it_holds),
        cmocka_unit_test(a_full_device_is_an_error),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaks_nothing),
        cmocka_unit_test(text_is_escaped_for_page_and_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
