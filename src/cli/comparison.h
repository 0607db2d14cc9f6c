/* The request and result of `compare`: schedules by values of a sweep, one cell per pair. The request
 * (cmd_sweep.c) is fully read and checked before the first plan is made. */
#pragma once

#include "cli/plan_request.h"
#include "plan/draw/style.h"

#define SL_MAX_VALUES 1000

/* One of --schedules. */
typedef struct sl_compared {
    char *text;    /* as given: name or name@placement */
    char name[32]; /* a family, auto or optimal */
    int placement; /* -1: the file's */
} sl_compared;

/* The values of --sweep, or none: then one value represents the unchanged file. */
typedef struct sl_sweep {
    char *key;    /* NULL: no sweep */
    char **value; /* [values] as texts: decimals without rounding, or words */
    double *number;
    int values, is_numeric; /* all values are numbers; then `number` holds them */
} sl_sweep;

typedef struct sl_comparison_cell {
    char *error; /* the reason for having no plan; NULL: there is one */
    char planned[32];
    sl_placement placement;
    sl_time value, bound; /* of the objective */
    sl_time makespan, span;
    double bubble, peak_memory; /* of the rank that needs most */
} sl_comparison_cell;

typedef struct sl_comparison {
    sl_compared *schedule;
    int schedules;
    sl_sweep sweep;
    sl_objective objective;
    sl_comparison_cell *cell; /* [value * schedules + schedule] */
    const char *file;         /* of the problem, for titles */
    const char *title;        /* of the picture; NULL: names the file */
} sl_comparison;

/** Reads "A,B@wave,.."; NULL: every family that fits `problem`, and auto. SL_EINVAL. */
sl_status sl_compared_read(const char *text, const sl_problem *problem, sl_compared **schedule, int *count);
void sl_compared_free(sl_compared *schedule, int count);

/** Reads KEY=FROM:TO:STEP (exact decimals, TO included if a step meets it) or KEY=A,B,..; NULL: none.
 * SL_EINVAL. Close also on error. */
sl_status sl_sweep_read(const char *text, sl_sweep *sweep);
void sl_sweep_close(sl_sweep *sweep);

/** Plans everything requested by `planning` (document, schedules, sweep, time limit and seed), with progress
 * on a terminal. SL_EINVAL, SL_ENONE: no cell has a schedule. Close with sl_comparison_close, also on
 * error. */
sl_status sl_comparison_make(sl_plan_request *planning, sl_comparison *comparison);
void sl_comparison_close(sl_comparison *comparison);

/** All cells in one of the forms text, json, csv, svg; `width` columns for text. */
sl_status sl_comparison_print(const sl_comparison *comparison, const char *format, int width, FILE *out);
/** The svg form; `style` may be NULL. */
sl_status sl_comparison_svg(const sl_comparison *comparison, const sl_draw_style *style, FILE *out);
