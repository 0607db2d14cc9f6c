/* The Gantt chart of a recorded iteration: ranks and, below them, links as lanes, predicted above measured.
 * As data for plan/draw/gantt.html, and as still pictures. */
#ifndef SL_REPORT_GANTT_H
#define SL_REPORT_GANTT_H

#include "plan/draw/svg.h"
#include "report/retrace.h"
#include <stdio.h>

/** The data of plan/draw/gantt.html for one iteration, as JSON that may stand in a script element. SL_ENOMEM.
 */
sl_status sl_gantt_data(const sl_retraced *retraced, const char *title, FILE *out);

/** The same as an SVG picture without lanes, with the critical paths; titles of both charts. SL_ENOMEM,
 * SL_ESYS. */
sl_status sl_gantt_still(const sl_retraced *retraced, const char *predicted, const char *measured, FILE *out);

/** "measured: ops 210 ms, bubble 12.5 % (what)". */
void sl_gantt_title(const char *name, const sl_timeline *timeline, const char *what, char *text, size_t size);

/** The charts of that picture, one or two, predicted first, into charts[2]; they point into `retraced` and at
 * the titles. Never fails. */
int sl_gantt_charts(const sl_retraced *retraced, const char *predicted, const char *measured,
                    sl_svg_chart *charts);

#endif
