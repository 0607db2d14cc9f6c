/* Cells as a table for people. */
#include "base/memory.h"
#include "cli/comparison.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double ms(sl_time t) {
    return round((double)t / 1e3) / 1e3;
}

/* Decimals, at most 3, that every makespan of the table is written with, so that their points align. */
static int decimals_of(const sl_comparison *c) {
    int most = 0;
    for (int i = 0; i < c->sweep.values * c->schedules; i++) {
        long long us = llround((double)c->cell[i].makespan / 1e3), step = 1000;
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
    const sl_cell *cell = &c->cell[value * c->schedules + k];
    if (cell->error)
        fprintf(out, "  %*s ", width - 1, "-");
    else
        fprintf(out, "  %*.*f%c", width - 1, decimals, ms(cell->makespan),
                sl_cell_is_best(c, value, k) ? '*' : ' ');
}

/* ---- with a sweep: a line for each value, a column for each schedule ---- */

static int column_width(const sl_comparison *c, int k, int decimals) {
    char text[64];
    int width = wider(8, strlen(c->schedule[k].text) + 1);
    for (int value = 0; value < c->sweep.values; value++)
        width = wider(width, (size_t)snprintf(text, sizeof text, "%.*f*", decimals,
                                              ms(c->cell[value * c->schedules + k].makespan)));
    return width;
}

/* The columns from `first` that fit, below each other when not all do; returns the next column. */
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

/* Why there are dashes: the first reason of each schedule, and how often it has none. */
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
    fprintf(out, "makespan in ms over %s; * is the shortest of its line\n\n", c->sweep.key);
    for (int k = 0; k < c->schedules;) {
        k = print_block(c, k, width, decimals, out);
        fputc('\n', out);
    }
    print_reasons(c, out);
}

/* ---- without: a line for each schedule, the shortest first ---- */

typedef struct line {
    const sl_cell *cell;
    int schedule;
} line;

static int compare_lines(const void *a, const void *b) {
    const line *x = a, *y = b;
    if (!x->cell->error != !y->cell->error)
        return x->cell->error ? 1 : -1;
    if (!x->cell->error && x->cell->makespan != y->cell->makespan)
        return x->cell->makespan < y->cell->makespan ? -1 : 1;
    return x->schedule - y->schedule;
}

static void print_line(const sl_comparison *c, const line *l, int names, int decimals, FILE *out) {
    const sl_compared *schedule = &c->schedule[l->schedule];
    const sl_cell *cell = l->cell;
    fprintf(out, "%-*s", names, schedule->text);
    print_cell(c, 0, l->schedule, 13, decimals, out);
    if (cell->error) {
        fprintf(out, " %s\n", cell->error);
        return;
    }
    fprintf(out, " %8.1f  %11.6g  %7.1f", 100 * cell->bubble, cell->peak_memory, 100 * sl_cell_gap(cell));
    const char *found = sl_cell_found_by(c, 0, l->schedule);
    fprintf(out, "%s%s\n", found ? "  found by " : "", found ? found : "");
}

static sl_status print_lines(const sl_comparison *c, FILE *out) {
    int names = name_width(c), decimals = decimals_of(c);
    line *lines;
    SL_TRY(sl_alloc(&lines, (size_t)c->schedules, sizeof *lines));
    for (int k = 0; k < c->schedules; k++)
        lines[k] = (line){.cell = &c->cell[k], .schedule = k};
    qsort(lines, (size_t)c->schedules, sizeof *lines, compare_lines);
    fprintf(out, "%-*s   makespan ms   bubble %%  peak memory    gap %%\n", names, "schedule");
    for (int k = 0; k < c->schedules; k++)
        print_line(c, &lines[k], names, decimals, out);
    fputs("\n* is the shortest; gap: above the proven lower bound of its problem\n", out);
    sl_free(lines);
    return SL_OK;
}

sl_status sl_comparison_text(const sl_comparison *c, int width, FILE *out) {
    if (c->sweep.key)
        print_sweep(c, width, out);
    else
        SL_TRY(print_lines(c, out));
    return ferror(out) ? sl_error_errno(SL_ESYS, "the comparison cannot be written") : SL_OK;
}
