/* Cells as JSON, CSV, a picture and a text table. */
#include "base/memory.h"
#include "cli/comparison.h"
#include "plan/draw/chart.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* (value - bound) / bound, as sl_plan_gap. */
static double gap_of(const sl_comparison_cell *cell) {
    return cell->bound > 0 ? (double)(cell->value - cell->bound) / (double)cell->bound : 0;
}

/* Whether no other schedule is shorter at the same value. */
static int is_best(const sl_comparison *c, int value, int schedule) {
    const sl_comparison_cell *cells = &c->cell[value * c->schedules], *cell = &cells[schedule];
    for (int k = 0; k < c->schedules; k++)
        if (!cells[k].error && cells[k].value < cell->value)
            return 0;
    return !cell->error;
}

/* The source of the plan if its name does not show it: the family that auto chose, or "search"; else NULL. */
static const char *found_by(const sl_comparison *c, int value, int schedule) {
    const sl_comparison_cell *cell = &c->cell[value * c->schedules + schedule];
    if (cell->error || strcmp(cell->planned, c->schedule[schedule].name) == 0)
        return NULL;
    return strcmp(cell->planned, "optimal") == 0 ? "search" : cell->planned;
}

/* ---- JSON ---- */

static json_t *value_json(const sl_sweep *sweep, int value) {
    if (!sweep->key)
        return json_null();
    if (!sweep->is_numeric)
        return json_string(sweep->value[value]);
    int whole = strspn(sweep->value[value], "-0123456789") == strlen(sweep->value[value]);
    return whole && fabs(sweep->number[value]) < 1e15 ? json_integer((json_int_t)sweep->number[value])
                                                      : json_real(sweep->number[value]);
}

/* A cell without a plan has null for every number. */
static json_t *number(const sl_comparison_cell *cell, double value) {
    return cell->error ? json_null() : json_real(value);
}

static json_t *row_json(const sl_comparison *c, int value, int schedule) {
    const sl_comparison_cell *cell = &c->cell[value * c->schedules + schedule];
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:s, s:s?, s:o, s:o, s:o, s:s, s:o, s:s?}", "schedule",
                     c->schedule[schedule].text, "value", value_json(&c->sweep, value), "makespan_ms",
                     number(cell, sl_to_ms(cell->makespan)), "bubble", number(cell, cell->bubble),
                     "peak_memory", number(cell, cell->peak_memory), "placement",
                     sl_placement_name(cell->placement), "planned", cell->error ? NULL : cell->planned,
                     "span_ms", number(cell, sl_to_ms(cell->span)), "lower_bound_ms",
                     number(cell, sl_to_ms(cell->bound)), "gap", number(cell, gap_of(cell)), "objective",
                     sl_objective_names[c->objective], "value_ms", number(cell, sl_to_ms(cell->value)),
                     "error", cell->error);
}

static sl_status print_json(const sl_comparison *c, FILE *out) {
    json_t *object = json_object(), *rows = json_array();
    int failed = json_object_set_new(object, "rows", rows) != 0;
    for (int value = 0; value < c->sweep.values; value++)
        for (int k = 0; k < c->schedules && !failed; k++)
            failed = json_array_append_new(rows, row_json(c, value, k)) != 0;
    if (!failed) /* 15 digits: 0.1 stays 0.1 */
        failed = json_dumpf(object, out, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) != 0;
    json_decref(object);
    fputc('\n', out);
    return failed ? sl_error(SL_ENOMEM, "out of memory for the comparison's JSON") : SL_OK;
}

/* ---- CSV (RFC 4180) ---- */

static void put_field(FILE *out, const char *text) {
    int quoted = strpbrk(text, ",\"\r\n") != NULL;
    if (quoted)
        fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    if (quoted)
        fputc('"', out);
}

static sl_status print_csv(const sl_comparison *c, FILE *out) {
    fputs("schedule,value,makespan_ms,bubble,peak_memory,placement,planned,span_ms,lower_bound_ms,gap,"
          "objective,"
          "value_ms,error\n",
          out);
    for (int i = 0; i < c->sweep.values * c->schedules; i++) {
        const sl_comparison_cell *cell = &c->cell[i];
        put_field(out, c->schedule[i % c->schedules].text);
        fputc(',', out);
        put_field(out, c->sweep.key ? c->sweep.value[i / c->schedules] : "");
        if (cell->error) {
            fprintf(out, ",,,,%s,,,,,%s,,", sl_placement_name(cell->placement),
                    sl_objective_names[c->objective]);
            put_field(out, cell->error);
            fputc('\n', out);
        } else {
            fprintf(out, ",%.15g,%.15g,%.15g,%s,%s,%.15g,%.15g,%.15g,%s,%.15g,\n", sl_to_ms(cell->makespan),
                    cell->bubble, cell->peak_memory, sl_placement_name(cell->placement), cell->planned,
                    sl_to_ms(cell->span), sl_to_ms(cell->bound), gap_of(cell),
                    sl_objective_names[c->objective], sl_to_ms(cell->value));
        }
    }
    return ferror(out) ? sl_error_errno(SL_ESYS, "the comparison cannot be written") : SL_OK;
}

/* Cells as a picture: lines over the swept value, or a bar for each schedule. */

static double value_ms(const sl_comparison_cell *cell) {
    return cell->error ? NAN : sl_to_ms(cell->value);
}

/* The bound of a value if it holds for all schedules, because they are planned for one problem. */
static double common_bound_ms(const sl_comparison *c, int value) {
    double bound = NAN;
    for (int k = 0; k < c->schedules; k++) {
        const sl_comparison_cell *cell = &c->cell[value * c->schedules + k];
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
    snprintf(title, size, "%s", c->title ? c->title : c->file);
    if (!c->title)
        snprintf(title, size, "%s: %s by schedule", c->file, sl_objective_names[c->objective]);
}

static void write_unit(const sl_comparison *c, char *unit, size_t size) {
    snprintf(unit, size, "%s (ms)", sl_objective_names[c->objective]);
}

/* ---- lines ---- */

/* y: [schedules + 1][values], the bound last. */
static int fill_series(const sl_comparison *c, double *y, sl_chart_line *series) {
    int values = c->sweep.values, bound = 0;
    for (int k = 0; k < c->schedules; k++) {
        series[k] = (sl_chart_line){.name = c->schedule[k].text, .y = &y[k * values]};
        for (int value = 0; value < values; value++)
            y[k * values + value] = value_ms(&c->cell[value * c->schedules + k]);
    }
    for (int value = 0; value < values; value++) {
        double ms = common_bound_ms(c, value);
        y[c->schedules * values + value] = ms;
        bound |= isfinite(ms);
    }
    series[c->schedules] =
        (sl_chart_line){.name = "lower bound", .y = &y[c->schedules * values], .is_reference = 1};
    return c->schedules + bound;
}

static sl_status draw_lines(const sl_comparison *c, const sl_draw_style *style, FILE *out) {
    char title[512], label[512], unit[32];
    double *y;
    sl_chart_line *series;
    size_t rows = (size_t)c->schedules + 1;
    write_title(c, title, sizeof title);
    write_unit(c, unit, sizeof unit);
    snprintf(label, sizeof label, "%s%s", c->sweep.key, unit_of(c->sweep.key));
    SL_TRY(sl_alloc(&y, rows * (size_t)c->sweep.values, sizeof *y));
    sl_status status = sl_alloc(&series, rows, sizeof *series);
    if (status == SL_OK) {
        sl_chart chart = {.title = title,
                          .x_label = label,
                          .y_label = unit,
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
    char title[512], unit[32];
    sl_bar *bar;
    write_title(c, title, sizeof title);
    write_unit(c, unit, sizeof unit);
    SL_TRY(sl_alloc(&bar, (size_t)c->schedules, sizeof *bar));
    for (int k = 0; k < c->schedules; k++) {
        const sl_comparison_cell *cell = &c->cell[k];
        bar[k] = (sl_bar){.name = c->schedule[k].text,
                          .note = cell->error ? cell->error : found_by(c, 0, k),
                          .value = value_ms(cell)};
    }
    qsort(bar, (size_t)c->schedules, sizeof *bar, compare_bars);
    sl_bars bars = {.title = title,
                    .x_label = unit,
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

/* Cells as a text table. */

static double ms(sl_time t) {
    return round((double)t / 1e3) / 1e3;
}

/* Common number of decimals, at most 3, of the table's values, so that their points align. */
static int decimals_of(const sl_comparison *c) {
    int most = 0;
    for (int i = 0; i < c->sweep.values * c->schedules; i++) {
        long long us = llround((double)c->cell[i].value / 1e3), step = 1000;
        for (int decimals = 0; !c->cell[i].error && decimals < 3 && us % step != 0; step /= 10) {
            decimals++;
            most = decimals > most ? decimals : most;
        }
    }
    return most;
}

static int wider(int a, size_t b) {
    return (int)b > a ? (int)b : a;
}

static int name_width(const sl_comparison *c) {
    int width = 8;
    for (int k = 0; k < c->schedules; k++)
        width = wider(width, strlen(c->schedule[k].text));
    return width;
}

static void print_cell(const sl_comparison *c, int value, int k, int width, int decimals, FILE *out) {
    const sl_comparison_cell *cell = &c->cell[value * c->schedules + k];
    if (cell->error)
        fprintf(out, "  %*s ", width - 1, "-");
    else
        fprintf(out, "  %*.*f%c", width - 1, decimals, ms(cell->value), is_best(c, value, k) ? '*' : ' ');
}

/* ---- with a sweep: one line per value, one column per schedule ---- */

static int column_width(const sl_comparison *c, int k, int decimals) {
    char text[64];
    int width = wider(8, strlen(c->schedule[k].text) + 1);
    for (int value = 0; value < c->sweep.values; value++)
        width = wider(width, (size_t)snprintf(text, sizeof text, "%.*f*", decimals,
                                              ms(c->cell[value * c->schedules + k].value)));
    return width;
}

/* Prints the columns from `first` that fit, the rest in further blocks; returns the next column. */
static int print_block(const sl_comparison *c, int first, int width, int decimals, FILE *out) {
    int left = 5, last = first, used;
    for (int value = 0; value < c->sweep.values; value++)
        left = wider(left, strlen(c->sweep.value[value]));
    for (used = left; last < c->schedules; last++) {
        int column = column_width(c, last, decimals) + 2;
        if (used + column > width && last > first)
            break;
        used += column;
    }
    fprintf(out, "%*s", left, "value");
    for (int k = first; k < last; k++)
        fprintf(out, "  %*s ", column_width(c, k, decimals) - 1, c->schedule[k].text);
    fputc('\n', out);
    for (int value = 0; value < c->sweep.values; value++) {
        fprintf(out, "%*s", left, c->sweep.value[value]);
        for (int k = first; k < last; k++)
            print_cell(c, value, k, column_width(c, k, decimals), decimals, out);
        fputc('\n', out);
    }
    return last;
}

/* Explains the dashes: the first reason of each schedule, and the number of its dashes. */
static void print_reasons(const sl_comparison *c, FILE *out) {
    for (int k = 0; k < c->schedules; k++) {
        int failed = 0, first = -1;
        for (int value = 0; value < c->sweep.values; value++)
            if (c->cell[value * c->schedules + k].error) {
                first = first < 0 ? value : first;
                failed++;
            }
        if (failed > 0)
            fprintf(out, "- %s, %d of %d values: %s\n", c->schedule[k].text, failed, c->sweep.values,
                    c->cell[first * c->schedules + k].error);
    }
}

static void print_sweep(const sl_comparison *c, int width, FILE *out) {
    int decimals = decimals_of(c);
    fprintf(out, "%s in ms over %s; * is the shortest of its line\n\n", sl_objective_names[c->objective],
            c->sweep.key);
    for (int k = 0; k < c->schedules;) {
        k = print_block(c, k, width, decimals, out);
        fputc('\n', out);
    }
    print_reasons(c, out);
}

/* ---- without: one line per schedule, the shortest first ---- */

typedef struct table_line {
    const sl_comparison_cell *cell;
    int schedule;
} table_line;

static int compare_lines(const void *a, const void *b) {
    const table_line *x = a, *y = b;
    if (!x->cell->error != !y->cell->error)
        return x->cell->error ? 1 : -1;
    if (!x->cell->error && x->cell->value != y->cell->value)
        return x->cell->value < y->cell->value ? -1 : 1;
    return x->schedule - y->schedule;
}

static void print_line(const sl_comparison *c, const table_line *l, int names, int decimals, FILE *out) {
    const sl_compared *schedule = &c->schedule[l->schedule];
    const sl_comparison_cell *cell = l->cell;
    fprintf(out, "%-*s", names, schedule->text);
    print_cell(c, 0, l->schedule, 13, decimals, out);
    if (cell->error) {
        fprintf(out, " %s\n", cell->error);
        return;
    }
    fprintf(out, " %8.1f  %11.6g  %7.1f", 100 * cell->bubble, cell->peak_memory, 100 * gap_of(cell));
    const char *found = found_by(c, 0, l->schedule);
    fprintf(out, "%s%s\n", found ? "  found by " : "", found ? found : "");
}

static sl_status print_lines(const sl_comparison *c, FILE *out) {
    int names = name_width(c), decimals = decimals_of(c);
    table_line *lines;
    SL_TRY(sl_alloc(&lines, (size_t)c->schedules, sizeof *lines));
    for (int k = 0; k < c->schedules; k++)
        lines[k] = (table_line){.cell = &c->cell[k], .schedule = k};
    qsort(lines, (size_t)c->schedules, sizeof *lines, compare_lines);
    fprintf(out, "%-*s   %8s ms   bubble %%  peak memory    gap %%\n", names, "schedule",
            sl_objective_names[c->objective]);
    for (int k = 0; k < c->schedules; k++)
        print_line(c, &lines[k], names, decimals, out);
    fputs("\n* is the shortest; gap: above the proven lower bound of its problem\n", out);
    sl_free(lines);
    return SL_OK;
}

static sl_status print_text(const sl_comparison *c, int width, FILE *out) {
    if (c->sweep.key)
        print_sweep(c, width, out);
    else
        SL_TRY(print_lines(c, out));
    return ferror(out) ? sl_error_errno(SL_ESYS, "the comparison cannot be written") : SL_OK;
}

/* ---- the choice ---- */

sl_status sl_comparison_print(const sl_comparison *c, const char *format, int width, FILE *out) {
    switch (format[0]) {
    case 'j':
        return print_json(c, out);
    case 'c':
        return print_csv(c, out);
    case 's':
        return sl_comparison_svg(c, NULL, out);
    default:
        return print_text(c, width, out);
    }
}
