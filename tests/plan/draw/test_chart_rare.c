/* Charts of values of which one is far above all others. */
#include "check.h"

#include "plan/draw/chart.h"

#include <stdio.h>
#include <string.h>

enum { MANY = 40 };

/* The heights of a line's points on the picture; the plot is 360 high, from 44. */
static void heights_of(const char *svg, double *height) {
    const char *at = strstr(svg, "<path d=\"M76.00 ");
    assert_non_null(at);
    at += strlen("<path d=\"M");
    for (int i = 0; i < MANY; i++) {
        double x;
        int used = 0;
        assert_int_equal(sscanf(at, "%lf %lf%n", &x, &height[i], &used), 2);
        at += used + 1;
    }
}

/* Of 40 points, without the stall. */
static double used_height(const double *height) {
    double lowest = 0, highest = 1000;
    for (int i = 0; i < MANY; i++) {
        lowest = i != 25 && height[i] > lowest ? height[i] : lowest;
        highest = i != 25 && height[i] < highest ? height[i] : highest;
    }
    return lowest - highest;
}

static sl_chart chart_of(const double *x, const char *const *names, const sl_chart_line *series) {
    return (sl_chart){.title = "a title",
                      .x_label = "iteration",
                      .y_label = "ms",
                      .points = MANY,
                      .x = x,
                      .label = names,
                      .count = 1,
                      .series = series};
}

static void draw(const sl_chart *chart, char **svg) {
    size_t size = 0;
    FILE *out = open_memstream(svg, &size);
    assert_non_null(out);
    assert_ok(sl_draw_chart(chart, out));
    fclose(out);
}

/* Iterations of 20 to 50 ms, from 0 on, or of 49 to 51 ms; one takes 1 s. */
static void a_stall_does_not_set_the_scale(void **state) {
    (void)state;
    const char *names[MANY];
    for (int around = 0; around < 2; around++) {
        double x[MANY], y[MANY], height[MANY];
        for (int i = 0; i < MANY; i++) {
            x[i] = i;
            y[i] = i == 25 ? 1000 : around ? 49 + i % 3 : 20 + 15 * (i % 3);
            names[i] = i == 25 ? "iteration 25" : "another";
        }
        const sl_chart_line series = {.name = "a", .y = y};
        sl_chart chart = chart_of(x, names, &series);
        char *svg = NULL;
        draw(&chart, &svg);
        heights_of(svg, height);
        assert_true(used_height(height) < 36); /* less than a tenth: all that the stall leaves */
        assert_null(strstr(svg, ">1000 ms<"));
        free(svg);
        chart.cuts_rare = 1;
        draw(&chart, &svg);
        heights_of(svg, height);
        assert_true(used_height(height) >= 180);
        assert_near(height[25], 44, 0.01);
        assert_non_null(strstr(svg, ">1000 ms</text>"));
        assert_non_null(strstr(svg, "<title>1000 at iteration 25</title>"));
        free(svg);
    }
}

/* A slow phase of a tenth of the iterations, and a spike of less than twice the others, set it. */
static void what_is_not_rare_or_not_far_sets_the_scale(void **state) {
    (void)state;
    const char *names[MANY];
    for (int spike = 0; spike < 2; spike++) {
        double x[MANY], y[MANY], height[MANY];
        for (int i = 0; i < MANY; i++) {
            x[i] = i;
            y[i] = spike ? (i == 25 ? 95 : 50) : (i >= 20 && i < 24 ? 1000 : 50);
            names[i] = "one";
        }
        const sl_chart_line series = {.name = "a", .y = y};
        sl_chart chart = chart_of(x, names, &series);
        chart.cuts_rare = 1;
        char *svg = NULL;
        draw(&chart, &svg);
        heights_of(svg, height);
        assert_null(strstr(svg, "l5 9h-10z"));
        assert_true(height[spike ? 25 : 20] > 44);
        free(svg);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stall_does_not_set_the_scale),
        cmocka_unit_test(what_is_not_rare_or_not_far_sets_the_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
