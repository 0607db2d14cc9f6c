/* The progress line at every width, with and without colour, live and plain; and the words on links and
 * ranks. */
#include "check.h"

#include "run/journal/progress.h"

static const sl_progress_view usual = {.iteration = 11,
                                       .iterations = 60,
                                       .loss = 3.14159,
                                       .tokens_per_s = 12345,
                                       .time = 118 * SL_MS,
                                       .predicted = 117 * SL_MS,
                                       .schedule = "adaptra",
                                       .health = "links ok; ranks ok",
                                       .left = 83 * SL_SECOND};

static void a_wide_line_tells_everything(void **state) {
    (void)state;
    char text[512];
    int length = sl_progress_line(&usual, 200, 0, text, sizeof text);
    assert_string_equal(text,
                        "12/60  loss 3.1416  12.3k tok/s  118 ms  (plan 117)  adaptra  links ok; ranks ok  "
                        "1:23 left");
    assert_int_equal(length, (int)strlen(text));
}

/* Whatever the width, no more characters than it, and whole words as long as the number of the iteration
 * fits. */
static void no_line_is_wider_than_the_terminal(void **state) {
    (void)state;
    char plain[512], coloured[512];
    for (int width = 1; width <= 120; width++) {
        int length = sl_progress_line(&usual, width, 0, plain, sizeof plain);
        assert_true(length <= width && length == (int)strlen(plain));
        assert_null(strchr(plain, '\033'));
        assert_int_equal(sl_progress_line(&usual, width, 1, coloured, sizeof coloured), length);
        char stripped[512];
        size_t used = 0;
        for (const char *c = coloured; *c; c++)
            if (*c == '\033')
                c = strchr(c, 'm');
            else
                stripped[used++] = *c;
        stripped[used] = 0;
        assert_string_equal(stripped, plain);
        if (width >= 5)
            assert_memory_equal(plain, "12/60", 5);
    }
    /* what matters most is the last to go */
    sl_progress_line(&usual, 79, 0, plain, sizeof plain);
    assert_string_equal(plain, "12/60 loss 3.1416 12.3k tok/s 118 ms (plan 117) adaptra links ok; ranks ok");
    sl_progress_line(&usual, 30, 0, plain, sizeof plain);
    assert_string_equal(plain, "12/60 loss 3.1416 118 ms");
}

static void what_is_not_known_is_left_out(void **state) {
    (void)state;
    char text[512];
    sl_progress_view first = usual;
    first.tokens_per_s = 0;
    first.predicted = first.left = -1;
    first.time = 99 * SL_MS + 940000;
    sl_progress_line(&first, 200, 0, text, sizeof text);
    assert_string_equal(text, "12/60  loss 3.1416  99.9 ms  adaptra  links ok; ranks ok");
    first.left = 3723 * SL_SECOND;
    first.tokens_per_s = 950;
    sl_progress_line(&first, 200, 0, text, sizeof text);
    assert_non_null(strstr(text, "950 tok/s"));
    assert_non_null(strstr(text, "1:02:03 left"));
}

/* ---- health ---- */

static void make(int ranks, sl_problem *p) {
    assert_ok(sl_problem_make(ranks, ranks, 4, p));
    for (int stage = 0; stage < ranks; stage++) {
        p->time[SL_F][stage] = p->time[SL_I][stage] = p->time[SL_W][stage] = 10 * SL_MS;
        p->time[SL_B][stage] = 20 * SL_MS;
    }
}

static void words_are(sl_health *h, const sl_problem *measured, int width, int bad, const char *expected) {
    char text[256];
    sl_health_observe(h, 3, measured);
    assert_int_equal(sl_health_words(h, width, text, sizeof text), bad);
    assert_string_equal(text, expected);
}

static void a_slow_link_and_a_slow_rank_are_named(void **state) {
    (void)state;
    sl_problem p, m;
    sl_health *h;
    make(4, &p);
    make(4, &m);
    assert_ok(sl_health_open(&p, 1, &h));
    words_are(h, &m, 100, 0, "links ok; ranks ok");
    m.link[1 * 4 + 2].latency = 58 * SL_MS;
    m.link[2 * 4 + 3].latency = SL_MS / 2; /* noise */
    words_are(h, &m, 100, 1, "links 0-1 ok, 1-2 +58 ms, 2-3 ok; ranks ok");
    words_are(h, &m, 40, 1, "links 1-2 +58 ms; ranks ok");
    m.link[3 * 4 + 2].transfer = 4 * SL_MS; /* the other direction counts, too */
    words_are(h, &m, 100, 1, "links 0-1 ok, 1-2 +58 ms, 2-3 +4.0 ms; ranks ok");
    words_are(h, &m, 40, 1, "links 1-2 +58 ms, 1 more slow; ranks ok");
    m.time[SL_F][2] = 15 * SL_MS;
    m.time[SL_B][2] = 30 * SL_MS;
    words_are(h, &m, 40, 1, "links 1-2 +58 ms, 1 more slow"); /* as much as there is room for */
    words_are(h, &m, 45, 1, "links 1-2 +58 ms, 1 more slow; rank 2 x1.5");
    m.link[1 * 4 + 2].latency = m.link[2 * 4 + 3].latency = m.link[3 * 4 + 2].transfer = 0;
    m.time[SL_F][0] = 12 * SL_MS;
    m.time[SL_B][0] = 24 * SL_MS;
    words_are(h, &m, 100, 1, "links ok; rank 2 x1.5, 1 more slow");
    sl_health_close(h);
    sl_problem_free(&m);
    sl_problem_free(&p);
}

static void of_many_the_worst_come_first_and_of_replicas_the_worst_counts(void **state) {
    (void)state;
    enum { MANY = 64 };
    sl_problem p, m, other;
    sl_health *h;
    make(MANY, &p);
    make(MANY, &m);
    make(MANY, &other);
    assert_ok(sl_health_open(&p, 1, &h));
    m.link[17 * MANY + 18].latency = 58 * SL_MS;
    words_are(h, &m, 100, 1, "links 17-18 +58 ms, 62 ok; ranks ok");
    m.link[3 * MANY + 4].latency = 60 * SL_MS;
    words_are(h, &m, 100, 1, "links 3-4 +60 ms, 17-18 +58 ms, 61 ok; ranks ok");
    for (int i = 30; i < 36; i++)
        m.link[i * MANY + i + 1].latency = 20 * SL_MS;
    words_are(h, &m, 100, 1,
              "links 3-4 +60 ms, 17-18 +58 ms, 30-31 +20 ms, 31-32 +20 ms, 4 more slow, 55 ok; ranks ok");
    other.link[40 * MANY + 41].latency = 99 * SL_MS;
    sl_health_observe(h, 3, &other);
    words_are(h, &m, 50, 1,
              "links 40-41 +99 ms, 3-4 +60 ms, 17-18 +58 ms");           /* as much as there is room for */
    words_are(h, &other, 100, 1, "links 40-41 +99 ms, 62 ok; ranks ok"); /* forgotten */
    sl_health_close(h);
    sl_problem_free(&other);
    sl_problem_free(&m);
    sl_problem_free(&p);
}

/* Without a pace a rank is compared with what it took itself. */
static void a_rank_without_a_pace_is_compared_with_its_first_iterations(void **state) {
    (void)state;
    sl_problem p, m;
    sl_health *h;
    char text[128];
    make(2, &p);
    make(2, &m);
    m.time[SL_F][0] = 500 * SL_MS; /* cold */
    assert_ok(sl_health_open(&p, 0, &h));
    sl_health_observe(h, 0, &m);
    assert_int_equal(sl_health_words(h, 100, text, sizeof text), 0);
    m.time[SL_F][0] = 40 * SL_MS; /* has more to do than rank 1 */
    for (int i = 1; i < 8; i++) {
        sl_health_observe(h, i, &m);
        assert_int_equal(sl_health_words(h, 100, text, sizeof text), 0);
        assert_string_equal(text, "links ok; ranks ok");
    }
    m.time[SL_F][1] = 30 * SL_MS; /* 30 before, 50 now */
    words_are(h, &m, 100, 1, "links ok; rank 1 x1.7");
    sl_health_close(h);
    sl_problem_free(&m);
    make(1, &m);
    sl_health *alone;
    assert_ok(sl_health_open(&m, 1, &alone));
    words_are(alone, &m, 100, 0, "ranks ok");
    sl_health_close(alone);
    sl_problem_free(&m);
    sl_problem_free(&p);
}

/* ---- a run ---- */

typedef struct recorder {
    char *text;
    size_t size;
    FILE *out;
    sl_clock *clock;
    sl_problem problem;
    sl_progress *progress;
} recorder;

static void begin(recorder *r, const sl_terminal *terminal) {
    *r = (recorder){0};
    r->out = open_memstream(&r->text, &r->size);
    assert_non_null(r->out);
    assert_ok(sl_clock_open_virtual(1, &r->clock));
    sl_clock_sleep_until(r->clock, SL_SECOND);
    make(2, &r->problem);
    assert_ok(sl_progress_open(r->out, terminal, r->clock, &r->problem, 1, 12, 1000, &r->progress));
}

static void iterate(recorder *r, int iteration, int changed) {
    sl_clock_sleep_until(r->clock, sl_clock_now(r->clock) + 500 * SL_MS);
    sl_progress_observe(r->progress, iteration, &r->problem);
    sl_progress_iteration(r->progress,
                          &(sl_progress_view){.iteration = iteration,
                                              .loss = 2.5,
                                              .time = 400 * SL_MS,
                                              .predicted = iteration ? 390 * SL_MS : -1,
                                              .schedule = "1f1b"},
                          changed);
}

static void end(recorder *r, const char *expected) {
    sl_progress_close(r->progress);
    fclose(r->out);
    assert_string_equal(r->text, expected);
    free(r->text);
    sl_clock_leave(r->clock);
    sl_clock_close(r->clock);
    sl_problem_free(&r->problem);
}

/* 1,000 tokens in 500 ms; what is said stands above the line, which is drawn again. */
static void on_a_terminal_one_line_is_drawn_in_its_place(void **state) {
    (void)state;
    recorder r;
    begin(&r, &(sl_terminal){.columns = 100});
    sl_progress_say(r.progress, "hello %d", 1);
    iterate(&r, 0, 1);
    iterate(&r, 1, 0);
    sl_progress_say(r.progress, "a link became slow");
    iterate(&r, 2, 0);
    sl_progress_end(r.progress);
    sl_progress_end(r.progress);
#define FIRST "1/12  loss 2.5000  400 ms  1f1b  links ok; ranks ok"
#define SECOND "2/12  loss 2.5000  2000 tok/s  400 ms  (plan 390)  1f1b  links ok; ranks ok  0:05 left"
    const char *third =
        "3/12  loss 2.5000  2000 tok/s  400 ms  (plan 390)  1f1b  links ok; ranks ok  0:05 left";
    char expected[1024];
    snprintf(expected, sizeof expected,
             "hello 1\n\r" FIRST "\033[K\r" SECOND "\033[K\r\033[Ka link became slow\n\r" SECOND
             "\033[K\r%s\033[K\n",
             third);
    end(&r, expected);
}

static void elsewhere_there_are_plain_lines(void **state) {
    (void)state;
    recorder r;
    begin(&r, NULL);
    for (int i = 0; i < 12; i++) {
        r.problem.link[1].latency = i == 4 ? 58 * SL_MS : 0;
        iterate(&r, i, i == 0 || i == 4);
        if (i == 4)
            sl_progress_say(r.progress, "onset");
    }
    end(&r, "iteration    0  loss 2.5000    400.0 ms  1f1b\n"
            "iteration    4  loss 2.5000    400.0 ms (predicted 390.0)  1f1b  links 0-1 +58 ms; ranks ok\n"
            "onset\n"
            "iteration   10  loss 2.5000    400.0 ms (predicted 390.0)  1f1b\n"
            "iteration   11  loss 2.5000    400.0 ms (predicted 390.0)  1f1b\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wide_line_tells_everything),
        cmocka_unit_test(no_line_is_wider_than_the_terminal),
        cmocka_unit_test(what_is_not_known_is_left_out),
        cmocka_unit_test(a_slow_link_and_a_slow_rank_are_named),
        cmocka_unit_test(of_many_the_worst_come_first_and_of_replicas_the_worst_counts),
        cmocka_unit_test(a_rank_without_a_pace_is_compared_with_its_first_iterations),
        cmocka_unit_test(on_a_terminal_one_line_is_drawn_in_its_place),
        cmocka_unit_test(elsewhere_there_are_plain_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
