/* Timelines as an SVG picture: Gantt charts, one below the other on one time scale. */
#ifndef SL_PLAN_DRAW_SVG_H
#define SL_PLAN_DRAW_SVG_H

#include "plan/draw/highlight.h"
#include <stdio.h>

typedef struct sl_svg_chart {
    const sl_timeline *timeline;
    const char *title;             /* any text; it is escaped */
    const sl_highlight *highlight; /* the critical path to outline; NULL: none is known */
} sl_svg_chart;

/** Charts of which one or more are drawn. Colours tell F, I, W and B apart for colour-blind readers and in
 * grey print, and are paler for the further stages of a rank; boxes carry the microbatch where it fits; the
 * two of a pair lie one above the other; collectives are bars below the ops; idle time is a pale band;
 * messages that take time are thin lines; the critical path is outlined. SL_ENOMEM; SL_ESYS when `out` cannot
 * be written. */
sl_status sl_draw_svg_charts(const sl_svg_chart *charts, int count, FILE *out);

/** The same of `count` timelines with their titles, without critical paths: measured ones. */
sl_status sl_draw_svg(const sl_timeline *const *timelines, const char *const *titles, int count, FILE *out);

#endif
