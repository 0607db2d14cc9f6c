/* Cells as a picture: lines over the swept value, or a bar for each schedule. */
#include "base/memory.h"
#include "cli/comparison.h"
#include "plan/draw/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double makespan_ms(const sl_cell *cell) {
    return cell->error ? NAN : sl_to_ms(cell->makespan);
}

/* The bound of a value where it holds for all schedules: they are planned for one problem. */
static double common_bound_ms(const sl_comparison *c, int value) {
    double bound = NAN;
    for (int k = 0; k < c->schedules; k++) {
        const sl_cell *cell = &c->cell[value * c->schedules + k];
        if (cell->placement != c->cell[value * c->schedules].placement)
            return NAN;
        if (!cell->error)
            bound = sl_to_ms(cell->bound);
    }
    return bound;
}

static const char *unit_of(const char *key) {
    static const struct {
        const char *end, *unit;
    } units[] = {{"_ms", " (ms)"}, {"_gbps", " (Gbit/s)"}, {"_mb", " (MB)"}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t length = strlen(key), end = strlen(units[i].end);
        if (length > end && strcmp(key + length - end, units[i].end) == 0)
            return units[i].unit;
    }
    return strncmp(key, "pipeline.times_ms.", 18) == 0 ? " (ms)" : "";
}

static void write_title(const sl_comparison *c, char *title, size_t size) {
    snprintf(title, size, "%s%s", c->title ? c->title : c->file, c->title ? "" : ": makespan by schedule");
}

/* ---- lines ---- */

/* y: [schedules + 1][values], the bound last. */
static int fill_series(const sl_comparison *c, double *y, sl_series *series) {
    int values = c->sweep.values, bound = 0;
    for (int k = 0; k < c->schedules; k++) {
        series[k] = (sl_series){.name = c->schedule[k].text, .y = &y[k * values]};
        for (int value = 0; value < values; value++)
            y[k * values + value] = makespan_ms(&c->cell[value * c->schedules + k]);
    }
    for (int value = 0; value < values; value++) {
        double ms = common_bound_ms(c, value);
        y[c->schedules * values + value] = ms;
        bound |= isfinite(ms);
    }
    series[c->schedules] =
        (sl_series){.name = "lower bound", .y = &y[c->schedules * values], .is_reference = 1};
    return c->schedules + bound;
}

static sl_status draw_lines(const sl_comparison *c, const sl_draw_style *style, FILE *out) {
    char title[512], label[512];
    double *y;
    sl_series *series;
    size_t rows = (size_t)c->schedules + 1;
    write_title(c, title, sizeof title);
    snprintf(label, sizeof label, "%s%s", c->sweep.key, unit_of(c->sweep.key));
    SL_TRY(sl_alloc(&y, rows * (size_t)c->sweep.values, sizeof *y));
    sl_status status = sl_alloc(&series, rows, sizeof *series);
    if (status == SL_OK) {
        sl_chart chart = {.title = title,
                          .x_label = label,
                          .y_label = "makespan (ms)",
                          .points = c->sweep.values,
                          .x = c->sweep.is_numeric ? c->sweep.number : NULL,
                          .label = (const char *const *)c->sweep.value,
                          .count = fill_series(c, y, series),
                          .series = series,
                          .style = style};
        status = sl_draw_chart(&chart, out);
        sl_free(series);
    }
    sl_free(y);
    return status;
}

/* ---- bars ---- */

static int compare_bars(const void *a, const void *b) {
    const sl_bar *x = a, *y = b;
    if (isfinite(x->value) != isfinite(y->value))
        return isfinite(x->value) ? -1 : 1;
    if (isfinite(x->value) && x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return strcmp(x->name, y->name);
}

static sl_status draw_bars(const sl_comparison *c, const sl_draw_style *style, FILE *out) {
    char title[512];
    sl_bar *bar;
    write_title(c, title, sizeof title);
    SL_TRY(sl_alloc(&bar, (size_t)c->schedules, sizeof *bar));
    for (int k = 0; k < c->schedules; k++) {
        const sl_cell *cell = &c->cell[k];
        bar[k] = (sl_bar){.name = c->schedule[k].text,
                          .note = cell->error ? cell->error : sl_cell_found_by(c, 0, k),
                          .value = makespan_ms(cell)};
    }
    qsort(bar, (size_t)c->schedules, sizeof *bar, compare_bars);
    sl_bars bars = {.title = title,
                    .x_label = "makespan (ms)",
                    .count = c->schedules,
                    .bar = bar,
                    .reference = common_bound_ms(c, 0),
                    .reference_name = "lower bound",
                    .style = style};
    sl_status status = sl_draw_bars(&bars, out);
    sl_free(bar);
    return status;
}

sl_status sl_comparison_svg(const sl_comparison *c, const sl_draw_style *style, FILE *out) {
    return c->sweep.key ? draw_lines(c, style, out) : draw_bars(c, style, out);
}
