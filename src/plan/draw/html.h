/* A plan as a self-contained page: a Gantt chart with zoom and pan, drawn on a canvas by the page's script
 * from the plan's numbers, which are embedded as JSON. Nothing is loaded from elsewhere. The page is
 * plan/draw/gantt.html, compiled in; its @MARKS@ are filled here. */
#pragma once

#include "plan/search/plan.h"

/** `title` is any text; it is escaped. SL_ENOMEM; SL_ESYS if `out` cannot be written. */
sl_status sl_draw_html(const sl_problem *problem, const sl_plan *plan, const char *title, FILE *out);

/** The page itself, gantt.html, made by the build. Other pages fill its marks with their own rows: in
 * addition to the output of sl_draw_html, the data may have `rows`, the names of rows that are not ranks, and
 * `lanes`, 1 for each row that is a link, whose `ops` are the messages of the ops that they name. */
extern const char sl_gantt_html[];
