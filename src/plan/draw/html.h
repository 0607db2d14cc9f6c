/* A plan as a page of its own: a Gantt chart to zoom and move in, drawn on a canvas by the page's script from
 * the plan's numbers, which the page carries as JSON. Nothing is loaded from elsewhere. The page is
 * plan/draw/gantt.html, compiled in; its @MARKS@ are filled here. */
#ifndef SL_PLAN_DRAW_HTML_H
#define SL_PLAN_DRAW_HTML_H

#include "plan/search/plan.h"

/** `title` is any text; it is escaped. SL_ENOMEM; SL_ESYS when `out` cannot be written. */
sl_status sl_draw_html(const sl_problem *problem, const sl_plan *plan, const char *title, FILE *out);

#endif
