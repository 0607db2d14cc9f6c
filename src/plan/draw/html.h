/* A plan as a page of its own: a Gantt chart to zoom and move in, drawn on a canvas by the page's script from
 * the plan's numbers, which the page carries as JSON. Nothing is loaded from elsewhere. The page is
 * plan/draw/gantt.html, compiled in; its @MARKS@ are filled here. */
#pragma once

#include "plan/search/plan.h"

/** `title` is any text; it is escaped. SL_ENOMEM; SL_ESYS when `out` cannot be written. */
sl_status sl_draw_html(const sl_problem *problem, const sl_plan *plan, const char *title, FILE *out);

/** The page itself, gantt.html, made by the build. Others fill its marks with rows of their own: besides what
 * sl_draw_html writes its data may have `rows`, the names of rows where they are not ranks, and `lanes`, 1
 * for each row that is a link, whose `ops` are the messages of the ops that they name. */
extern const char sl_gantt_html[];
