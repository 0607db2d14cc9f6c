/* A table of numbers as a picture: the larger a number, the darker its cell. */
#pragma once

#include "base/status.h"
#include "plan/draw/style.h"

typedef struct sl_heat_map {
    const char *title, *row_name, *column_name; /* "pipeline rank" */
    int rows, columns;
    const int *column_number; /* [columns]; NULL: from 0 */
    const double *value;      /* [rows * columns] */
    double least, most;       /* of the scale: white, and darkest */
    const char *digits;       /* format of a number in its cell, with one %f */
} sl_heat_map;

/** As SVG. SL_ESYS. */
sl_status sl_draw_heat_map(const sl_heat_map *map, FILE *out);

/** As text, at most `width` columns wide: one line per row, or, of too many columns, several blocks. */
void sl_print_heat_map(const sl_heat_map *map, int width, FILE *out);
