/* The parts of the page that are tables and texts. All write HTML to `out` and escape content from the
 * folder; errors show in ferror. */
#pragma once

#include "report/courses.h"
#include "report/gain.h"

#include <stdio.h>

#define SL_TABLE_EVENTS 2000 /* listed; of more, the middle is omitted */

void sl_table_figures(const sl_run_data *data, const sl_gain *gain, size_t gains, FILE *out);
void sl_table_notes(const sl_run_data *data, FILE *out);
/** The effect of each change, and the medians of the run's phases. SL_ENOMEM. */
sl_status sl_table_gains(const sl_run_data *data, const sl_gain *gain, size_t gains, FILE *out);
void sl_table_events(const sl_run_data *data, FILE *out);
void sl_table_decisions(const sl_run_data *data, FILE *out);
/** `what`: "link" or "rank". */
void sl_table_courses(const sl_courses *courses, const char *what, FILE *out);
void sl_table_setup(const sl_run_data *data, FILE *out);

/* Single cells and rows of the page's tables. Texts are escaped; errors show in ferror. */

void sl_cell_text(FILE *out, const char *text);
/** `format` has one %g or %f; writes a dash if the value is not finite. */
void sl_cell_number(FILE *out, const char *format, double value);

/** A named value among the key figures. */
void sl_cell_figure(FILE *out, const char *name, const char *value);

/** A row of two: prefix and key as its header, and the value. */
void sl_cell_row(FILE *out, const char *prefix, const char *key, const char *value);
