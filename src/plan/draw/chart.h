/* Charts as SVG, without scripts or external resources. Series are distinguished by color, dash pattern and
 * marker, so a chart is readable in gray print too; each is named at the end of its own line instead of in a
 * legend. Axes begin and end at round numbers. All text is escaped. */
#pragma once

#include "base/status.h"
#include "plan/draw/style.h"
#include <stdio.h>

typedef struct sl_chart_line {
    const char *name;
    const double *y;  /* [points]; NaN: missing, the line has a gap there */
    int is_reference; /* a thin gray line without markers, such as a bound */
} sl_chart_line;

/* An event on x: a line across the plot with a sign above it. */
typedef struct sl_chart_mark {
    double x;
    const char *sign, *text; /* above the line: words with commas, of which there may be room for the first
                                or none; its tooltip */
    int is_change;           /* a full line and a filled diamond; else dotted with an open triangle */
} sl_chart_mark;

typedef struct sl_chart {
    const char *title, *x_label, *y_label; /* with units; an empty title takes no room */
    int points;
    const double *x;          /* [points], in any order; NULL: the labels are on the axis instead */
    int x_is_whole;           /* x are counts, such as iterations: no tick between two of them */
    const char *const *label; /* [points] text of x: on the axis without x, in tooltips with it */
    int count;
    const sl_chart_line *series; /* [count] */
    int marks;                   /* with x only */
    const sl_chart_mark *mark;   /* [marks] in ascending x; those outside of the points are not drawn */
    int from_zero;               /* the axis of values >= 0; else only if they differ by more than half */
    int cuts_rare;               /* with x only: few values far above all others do not set the scale; each is
                                    a triangle at the top, with its number */
    const sl_draw_style *style;  /* NULL: that of the screen; names go below a narrow plot */
} sl_chart;

/** Lines over x; over categories, markers side by side. SL_EINVAL: too narrow for its letters; SL_ENOMEM,
 * SL_ESYS. */
sl_status sl_draw_chart(const sl_chart *chart, FILE *out);

typedef struct sl_bar {
    const char *name, *note; /* the note is right of the bar; may be NULL */
    double value;            /* NaN: no bar, only the note */
} sl_bar;

typedef struct sl_bars {
    const char *title, *x_label;
    int count;
    const sl_bar *bar;          /* [count], from the top */
    double reference;           /* a line across the bars; NaN: none */
    const char *reference_name; /* NULL: none */
    const sl_draw_style *style; /* NULL: that of the screen */
} sl_bars;

/** Bars from 0 to the right. SL_EINVAL: too narrow; SL_ESYS. */
sl_status sl_draw_bars(const sl_bars *bars, FILE *out);
