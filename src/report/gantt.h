/* The Gantt chart of a recorded iteration: ranks and, below them, links as lanes, predicted above measured.
 * As data for plan/draw/gantt.html, and as still pictures. */
#ifndef SL_REPORT_GANTT_H
#define SL_REPORT_GANTT_H

#include "report/retrace.h"
#include <stdio.h>

/** The data of plan/draw/gantt.html for one iteration, as JSON that may stand in a script element. SL_ENOMEM.
 */
sl_status sl_gantt_data(const sl_retraced *retraced, const char *title, FILE *out);

/** The same as an SVG picture without lanes, with the critical paths; titles of both charts. SL_ENOMEM,
 * SL_ESYS. */
sl_status sl_gantt_still(const sl_retraced *retraced, const char *predicted, const char *measured, FILE *out);

#endif
