/* Single cells and rows of the page's tables. Texts are escaped; errors show in ferror. */
#ifndef SL_REPORT_CELLS_H
#define SL_REPORT_CELLS_H

#include <stdio.h>

void sl_cell_text(FILE *out, const char *text);
/** `format` has one %g or %f; a dash where the value is not finite. */
void sl_cell_number(FILE *out, const char *format, double value);

/** A value with its name, of the headline. */
void sl_cell_figure(FILE *out, const char *name, const char *value);

/** A row of two: prefix and key as its head, and the value. */
void sl_cell_row(FILE *out, const char *prefix, const char *key, const char *value);

#endif
