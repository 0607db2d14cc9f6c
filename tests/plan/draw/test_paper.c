/* Pictures for paper: lanes, memory, sizes, titles and stacks, and what is read back from a plan's JSON. */
#include "check.h"

#include "base/memory.h"
#include "plan/draw/lanes.h"
#include "plan/draw/stack.h"
#include "plan/draw/svg.h"
#include "plan/search/plan.h"
#include "plan/search/plan_read.h"

#include <math.h>

static sl_transfer message(int from, int to, int microbatch, sl_time start, sl_time arrive) {
    return (sl_transfer){.from = from,
                         .to = to,
                         .op = {.stage = from, .microbatch = microbatch, .kind = SL_F},
                         .start = start,
                         .end = start,
                         .arrive = arrive};
}

static void messages_at_once_lie_on_lanes_of_their_own(void **state) {
    (void)state;
    /* 0 to 1: [0, 30), [10, 40), [30, 50); the last follows the first. 1 to 2 has one, 2 to 1 takes no time
     */
    sl_transfer transfers[] = {message(1, 2, 0, 5, 6), message(0, 1, 1, 10, 40), message(0, 1, 0, 0, 30),
                               message(0, 1, 2, 30, 50), message(2, 1, 0, 7, 7)};
    sl_timeline t = {.ranks = 3, .transfers = 5, .transfer = transfers};
    sl_lanes lanes;
    assert_ok(sl_lanes_make(&t, &lanes));
    assert_int_equal(lanes.lanes, 3);
    assert_int_equal(lanes.rides, 4);
    const int expected[4][2] = {{2, 0}, {3, 0}, {1, 1}, {0, 2}}; /* message, lane */
    for (int i = 0; i < 4; i++) {
        assert_int_equal(lanes.ride[i].transfer, expected[i][0]);
        assert_int_equal(lanes.ride[i].lane, expected[i][1]);
    }
    assert_int_equal(lanes.lane[2]->from, 1);
    sl_lanes_free(&lanes);
}

static void a_problem_of_three_ranks(sl_problem *p) {
    assert_ok(sl_problem_make(3, 3, 4, p));
    for (int s = 0; s < 3; s++) {
        p->time[SL_F][s] = p->time[SL_I][s] = p->time[SL_W][s] = 10 * SL_MS;
        p->time[SL_B][s] = 20 * SL_MS;
    }
    for (int i = 0; i < 9; i++)
        p->link[i].latency = 25 * SL_MS;
}

/* GPipe holds all of its microbatches: 1, 2, 3, 4 as its forwards begin, and one less as each W ends. */
static void the_course_of_memory_is_that_of_the_ops(void **state) {
    (void)state;
    sl_problem p;
    sl_plan plan;
    sl_memory_step *steps;
    int first[4];
    double peak[3];
    a_problem_of_three_ranks(&p);
    assert_ok(sl_plan_make(&p, "gpipe", &plan));
    assert_ok(sl_memory_course(&p, &plan.timeline, &steps, first));
    assert_ok(sl_peak_memory(&p, &plan.timeline, peak));
    const double expected[8] = {1, 2, 3, 4, 3, 2, 1, 0};
    for (int rank = 0; rank < 3; rank++) {
        assert_int_equal(first[rank + 1] - first[rank], 8);
        for (int k = 0; k < 8; k++) {
            const sl_memory_step *s = &steps[first[rank] + k];
            assert_true(s->used == expected[k] && s->rank == rank);
            assert_true(k == 0 || s->time > s[-1].time);
        }
        assert_true(peak[rank] == 4);
    }
    assert_int_equal(steps[0].time, 0);
    assert_int_equal(steps[3].time, 30 * SL_MS);
    sl_free(steps);
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

static void a_size_on_paper_is_kept_whatever_the_letters(void **state) {
    (void)state;
    /* 85 mm at 96 px an inch; letters of 8 px in a layout whose letters have 12 units: 1.5 units a px */
    const sl_draw_style style = {.width = 85 * 96 / 25.4, .unit = "mm", .font = 8};
    assert_true(fabs(sl_style_width(&style, 700, 12) - 85 * 96 / 25.4 * 1.5) < 1e-9);
    assert_true(fabs(sl_style_width(NULL, 700, 12) - 700) < 1e-9);
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    sl_style_begin(&style, sl_style_width(&style, 700, 12), 240, 12, out);
    fclose(out);
    assert_non_null(strstr(text, " width=\"85mm\""));
    assert_non_null(strstr(text, " height=\"42.3333mm\"")); /* 240 / 1.5 = 160 px */
    free(text);
    assert_true(sl_style_unit("furlong") == 0);
}

static void titles_break_between_words_and_never_within_a_character(void **state) {
    (void)state;
    assert_int_equal(sl_style_title("", 0, 0, 500, NULL), 0);
    assert_int_equal(sl_style_title(NULL, 0, 0, 500, NULL), 0);
    assert_int_equal(sl_style_title("one two three", 0, 0, 500, NULL), 1);
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(sl_style_title("seven 1234 \xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 5, 10,
                                    10 * 8.7 + 1, out),
                     3);
    fclose(out);
    assert_non_null(strstr(text, ">seven 1234<"));
    assert_non_null(strstr(text, "y=\"27.0\""));
    assert_non_null(strstr(text, ">\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4<"));
    assert_null(strstr(text, "\xef\xbf\xbd")); /* no replacement of half a character */
    free(text);
}

/* Plans and draws with rows of every kind, reads the plan back from its JSON. */
static sl_status draw_all(const sl_problem *p, const sl_plan *plan, const char *json, size_t size,
                          FILE *out) {
    sl_memory_step *steps = NULL;
    sl_timeline read = {0};
    sl_plan_memory held = {0};
    int first[4];
    const double limit[3] = {4, 4, 4};
    char name[SL_PLAN_NAME];
    const sl_draw_style style = {.width = 500, .font = 10, .grey = 1, .has_from = 1, .from = 20};
    sl_status status = sl_memory_course(p, &plan->timeline, &steps, first);
    if (status == SL_OK)
        status = sl_plan_read_json("plan.json", json, size, &read, &held, name);
    const sl_svg_memory memory = {.step = steps, .first = first, .limit = limit};
    const sl_svg_chart charts[2] = {
        {.timeline = &plan->timeline, .title = "a", .messages = SL_MESSAGES_LANES, .memory = &memory},
        {.timeline = &read, .title = ""}};
    if (status == SL_OK)
        status = sl_draw_svg_charts(charts, 2, &style, out);
    sl_free(steps);
    sl_timeline_free(&read);
    sl_plan_memory_free(&held);
    return status;
}

static void every_failed_allocation_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    int failures = 0, done = 0;
    sl_problem p;
    sl_plan plan;
    char *json;
    size_t size;
    FILE *out = fopen("/dev/null", "w"), *text = open_memstream(&json, &size);
    a_problem_of_three_ranks(&p);
    assert_ok(sl_plan_make(&p, "zb-h1", &plan));
    assert_ok(sl_plan_write_json(&p, &plan, text));
    fclose(text);
    for (long n = 0; !done && n < 1000; n++) {
        sl_alloc_fail_at(n);
        sl_status status = draw_all(&p, &plan, json, size, out);
        sl_alloc_fail_at(-1);
        done = status == SL_OK;
        if (!done)
            assert_int_equal(status, SL_ENOMEM);
        failures += !done;
    }
    assert_true(done && failures > 8);
    fclose(out);
    free(json);
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

static void a_plan_comes_back_from_its_json(void **state) {
    (void)state;
    static const char *const names[] = {"gpipe", "1f1b", "zb-h2", "adaptra"};
    sl_problem p;
    a_problem_of_three_ranks(&p);
    p.reduce[1] = 7 * SL_MS;
    p.gather[2] = 3 * SL_MS;
    for (size_t i = 0; i < 4; i++) {
        sl_plan plan;
        sl_timeline t;
        sl_plan_memory held;
        double peak = 0;
        char *json, name[SL_PLAN_NAME];
        size_t size;
        FILE *text = open_memstream(&json, &size);
        assert_ok(sl_plan_make(&p, names[i], &plan));
        assert_ok(sl_plan_write_json(&p, &plan, text));
        fclose(text);
        assert_ok(sl_plan_read_json("plan.json", json, size, &t, &held, name));
        assert_string_equal(name, names[i]);
        assert_int_equal(t.spans, plan.timeline.spans);
        assert_int_equal(t.collectives, plan.timeline.collectives);
        assert_int_equal(t.transfers, plan.timeline.transfers);
        for (int k = 0; k < t.spans; k++)
            assert_memory_equal(&t.span[k], &plan.timeline.span[k], sizeof *t.span);
        for (int k = 0; k < t.transfers; k++)
            assert_memory_equal(&t.transfer[k], &plan.timeline.transfer[k], sizeof *t.transfer);
        assert_int_equal(sl_timeline_makespan(&t), plan.makespan);
        for (int k = held.first[1]; k < held.first[2]; k++)
            peak = fmax(peak, held.step[k].used);
        assert_float_equal(peak, plan.peak_memory[1], 1e-12);
        assert_true(!held.limit && held.always[1] == 0);
        sl_plan_memory_free(&held);
        sl_timeline_free(&t);
        free(json);
        sl_plan_free(&plan);
    }
    sl_problem_free(&p);
}

static void charts_are_stacked_without_touching(void **state) {
    (void)state;
    char one[] = "<a/>\n", two[] = "<b/>\n", *text;
    const sl_svg_part parts[] = {{one, 300, 100}, {two, 200, 50}};
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_ok(sl_draw_stack(parts, 2, NULL, out));
    fclose(out);
    assert_non_null(strstr(text, "viewBox=\"0 0 300 150\""));
    assert_non_null(strstr(text, "<g transform=\"translate(0 0)\">\n<a/>\n</g>"));
    assert_non_null(strstr(text, "<g transform=\"translate(0 100)\">\n<b/>\n</g>\n</svg>"));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_at_once_lie_on_lanes_of_their_own),
        cmocka_unit_test(the_course_of_memory_is_that_of_the_ops),
        cmocka_unit_test(a_size_on_paper_is_kept_whatever_the_letters),
        cmocka_unit_test(titles_break_between_words_and_never_within_a_character),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaks_nothing),
        cmocka_unit_test(a_plan_comes_back_from_its_json),
        cmocka_unit_test(charts_are_stacked_without_touching),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
