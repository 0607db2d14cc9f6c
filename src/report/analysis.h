/* A recorded iteration analyzed: its order lowered to the program that ran, replayed with the values known
 * before the iteration (the ops of the previous iteration and its links, from metrics.jsonl), and the cause
 * that held up each op, predicted and measured. */
#pragma once

#include "plan/draw/highlight.h"
#include "plan/draw/svg.h"
#include "report/recorded.h"

#include <stdio.h>

typedef struct sl_analysis {
    sl_timeline measured;  /* with a program, its transfers are in the order of the program's messages */
    sl_timeline predicted; /* its first op starts with the measured one */
    sl_problem problem;    /* values known before the iteration */
    sl_program program;
    int has_program, has_predicted;
    int32_t *cause;           /* [measured.spans] as from sl_critical_cause; NULL without a program */
    int32_t *predicted_cause; /* [predicted.spans] */
    sl_highlight measured_path, predicted_path; /* if there are a program and a prediction */
    char why_not[320];                          /* why there is no prediction; else empty */
} sl_analysis;

/** SL_ENOMEM. An order that is not a schedule of the run's profile yields only the measured timeline. Free
 * with sl_analysis_free, also on error. */
sl_status sl_analysis_make(const sl_run_data *data, const sl_recorded *recorded, size_t index,
                           sl_analysis *analysis);
void sl_analysis_free(sl_analysis *analysis);

/* The Gantt chart of a recorded iteration: ranks and, below them, links as lanes, predicted above measured.
 * As data for plan/draw/gantt.html, and as still pictures. */

/** The data of plan/draw/gantt.html for one iteration, as JSON for a script element. SL_ENOMEM. */
sl_status sl_gantt_data(const sl_analysis *analysis, const char *title, FILE *out);

/** The same as an SVG picture without lanes, with the critical paths; titles of both charts. SL_ENOMEM,
 * SL_ESYS. */
sl_status sl_gantt_still(const sl_analysis *analysis, const char *predicted, const char *measured, FILE *out);

/** "measured: ops 210 ms, bubble 12.5% (what)". */
void sl_gantt_title(const char *name, const sl_timeline *timeline, const char *what, char *text, size_t size);

/** The charts of that picture, one or two, predicted first, into charts[2]; they point into `analysis` and to
 * the titles. Never fails. */
int sl_gantt_charts(const sl_analysis *analysis, const char *predicted, const char *measured,
                    sl_svg_chart *charts);
