/* The progress line at every width, with and without colour, live and plain; and the words on links and
 * ranks. */
#include "check.h"

#include "run/journal/progress.h"
#include "virtual_clock.h"

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

static sl_incident_view slow_link(int a, int b, double ms) {
    return (sl_incident_view){
        .part = {.kind = SL_PART_LINK, .a = a, .b = b}, .stage = -1, .growth = ms * SL_MS, .loss = ms / 1000};
}

static sl_incident_view slow_device(int process, double times) {
    return (sl_incident_view){
        .part = {.kind = SL_PART_DEVICE, .a = process, .b = -1}, .stage = -1, .growth = times, .loss = 0.1};
}

static void words_are(const sl_job *job, const sl_incident_view *incidents, int count, int width,
                      const char *expected) {
    char text[256];
    assert_int_equal(sl_health_words(job, incidents, count, width, text, sizeof text), count > 0);
    assert_string_equal(text, expected);
}

static void a_slow_link_and_a_slow_rank_are_named(void **state) {
    (void)state;
    const sl_job job = {.replicas = 1, .ranks = 4, .tensor = 1};
    sl_incident_view slow[4] = {slow_link(1, 2, 58), slow_link(2, 3, 4), slow_device(2, 1.5),
                                slow_device(0, 1.2)};
    words_are(&job, NULL, 0, 100, "links ok; ranks ok");
    words_are(&job, slow, 1, 100, "links 1-2 +58 ms; ranks ok");
    words_are(&job, slow, 2, 100, "links 1-2 +58 ms, 2-3 +4.0 ms; ranks ok");
    words_are(&job, slow, 2, 40, "links 1-2 +58 ms, 1 more slow; ranks ok");
    words_are(&job, slow, 3, 40, "links 1-2 +58 ms, 1 more slow"); /* as much as there is room for */
    words_are(&job, slow, 3, 45, "links 1-2 +58 ms, 1 more slow; rank 2 x1.5");
    words_are(&job, slow + 2, 2, 100, "links ok; rank 2 x1.5, 1 more slow");
    const sl_incident_view turned = slow_link(2, 1, 58);
    words_are(&job, &turned, 1, 100, "links 1-2 +58 ms; ranks ok");
}

static void of_many_the_costliest_come_first(void **state) {
    (void)state;
    const sl_job job = {.replicas = 1, .ranks = 64, .tensor = 1};
    sl_incident_view slow[8] = {slow_link(3, 4, 60), slow_link(17, 18, 58)};
    for (int i = 2; i < 8; i++)
        slow[i] = slow_link(28 + i, 29 + i, 20);
    words_are(&job, slow, 8, 100,
              "links 3-4 +60 ms, 17-18 +58 ms, 30-31 +20 ms, 31-32 +20 ms, 4 more slow; ranks ok");
    words_are(&job, slow, 8, 32, "links 3-4 +60 ms, 7 more slow"); /* as much as there is room for */
    for (int width = 0; width <= 120; width++) {
        char text[256];
        sl_health_words(&job, slow, 8, width, text, sizeof text);
        assert_true((int)strlen(text) <= width);
    }
}

/* Processes are numbered by rank, then by replica, then by tensor rank (adapt/model/model.h). */
static void what_belongs_to_a_process_is_named_by_its_rank_in_the_pipeline(void **state) {
    (void)state;
    const sl_job job = {.replicas = 2, .ranks = 4, .tensor = 2};
    sl_incident_view device = slow_device(4 * 3 + 2 * 1 + 1, 2), link = slow_link(4 * 1 + 2, 4 * 2 + 2, 20),
                     card = {.part = {.kind = SL_PART_CARD, .a = 4 * 2, .b = -1},
                             .stage = -1,
                             .growth = 30 * SL_MS},
                     sum = {.part = {.kind = SL_PART_LINK, .a = 4 * 1, .b = 4 * 1 + 2},
                            .stage = 1,
                            .growth = 7 * SL_MS};
    words_are(&job, &device, 1, 100, "links ok; rank 3 x2");
    words_are(&job, &link, 1, 100, "links 1-2 +20 ms; ranks ok");
    words_are(&job, &card, 1, 100, "links all of rank 2 +30 ms; ranks ok");
    words_are(&job, &sum, 1, 100, "links sum of stage 1 +7.0 ms; ranks ok");
    const sl_job alone = {.replicas = 1, .ranks = 1, .tensor = 1};
    words_are(&alone, NULL, 0, 100, "ranks ok");
}

/* ---- a run ---- */

typedef struct recorder {
    char *text;
    size_t size;
    FILE *out;
    sl_clock *clock;
    sl_progress *progress;
    int slow; /* incidents that last */
} recorder;

static void begin(recorder *r, const sl_terminal *terminal) {
    *r = (recorder){0};
    r->out = open_memstream(&r->text, &r->size);
    assert_non_null(r->out);
    assert_ok(sl_clock_open_virtual(1, &r->clock));
    sl_clock_sleep_until(r->clock, SL_SECOND);
    assert_ok(sl_progress_open(r->out, terminal, r->clock, 12, 1000, &r->progress));
}

static void iterate(recorder *r, int iteration, int changed) {
    const sl_job job = {.replicas = 1, .ranks = 2, .tensor = 1};
    const sl_incident_view incident = slow_link(0, 1, 58);
    sl_clock_sleep_until(r->clock, sl_clock_now(r->clock) + 500 * SL_MS);
    sl_progress_iteration(r->progress,
                          &(sl_progress_view){.iteration = iteration,
                                              .loss = 2.5,
                                              .time = 400 * SL_MS,
                                              .predicted = iteration ? 390 * SL_MS : -1,
                                              .schedule = "1f1b",
                                              .job = &job,
                                              .incidents = &incident,
                                              .incident_count = r->slow},
                          changed);
}

static void end(recorder *r, const char *expected) {
    sl_progress_close(r->progress);
    fclose(r->out);
    assert_string_equal(r->text, expected);
    free(r->text);
    sl_clock_leave(r->clock);
    sl_clock_close(r->clock);
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
        r.slow = i == 4;
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
        cmocka_unit_test(of_many_the_costliest_come_first),
        cmocka_unit_test(what_belongs_to_a_process_is_named_by_its_rank_in_the_pipeline),
        cmocka_unit_test(on_a_terminal_one_line_is_drawn_in_its_place),
        cmocka_unit_test(elsewhere_there_are_plain_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
