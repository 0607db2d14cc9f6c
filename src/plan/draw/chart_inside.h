/* Marks of a chart: a line across the plot for each, a symbol at its top, and its sign above that, in as few
 * rows as possible. If there is no room for all signs, those of changes come first. */
#pragma once

#include "plan/draw/axis.h"
#include "plan/draw/chart.h"

typedef struct sl_chart_sign {
    double x, at;   /* on the picture: the line, and the middle of the sign */
    int drawn, row; /* row: from the plot upwards; -1: there is no room for the sign */
    char text[48];
} sl_chart_sign;

typedef struct sl_chart_signs {
    sl_chart_sign *sign; /* [marks] */
    int rows;
} sl_chart_signs;

#define SL_CHART_SIGNS_OVER 14.0 /* beyond the plot's right end */

/** The position of each mark of a chart with a plot of width `plot` that begins at `left`. SL_ENOMEM. Free
 * with sl_chart_signs_free. */
sl_status sl_chart_signs_arrange(const sl_chart *chart, const sl_chart_axis *axis, double left, double plot,
                                 sl_chart_signs *signs);
void sl_chart_signs_free(sl_chart_signs *signs);

/** Height that they take above the symbols. */
double sl_chart_signs_height(const sl_chart_signs *signs);
void sl_chart_signs_draw(const sl_chart *chart, const sl_chart_signs *signs, double top, double height,
                         FILE *out);

/* ---- rare values, which do not set the scale ---- */

typedef struct sl_chart_rare {
    double x, value; /* x on the picture */
    int point;
} sl_chart_rare;

/** Finds from which value on values are rare, INFINITY: none is. seen[points]: 1: the point is drawn.
 * SL_ENOMEM. */
sl_status sl_chart_rare_find(const sl_chart *chart, const unsigned char *seen, double *from);

/** Triangles at the top of the plot, with numbers as far as there is room. `rare` in ascending x. */
void sl_chart_rare_draw(const sl_chart *chart, const sl_chart_rare *rare, size_t count, double right,
                        double top, FILE *out);
