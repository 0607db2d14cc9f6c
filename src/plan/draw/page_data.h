/* The numbers that the script of plan/draw/gantt.html draws: one timeline, or two with the same ranks, as
 * JSON. A table is an object of columns; times in ns; null: none. With names, rows are called by them, and
 * links are lanes below the ranks, on which messages are entries of their own. */
#pragma once

#include "plan/draw/highlight.h"
#include "plan/lower/program.h"

#include <stdio.h>

typedef struct sl_page_chart {
    const char *name; /* NULL: rows are ranks, and there are no lanes */
    const sl_timeline *timeline;
    const sl_program
        *program;         /* what the timeline is of; NULL: not known, then no message leads from op to op */
    const int32_t *cause; /* [spans] as sl_critical_cause tells it; NULL: not known */
    const sl_highlight *path; /* NULL: none */
} sl_page_chart;

typedef struct sl_page_data {
    const char *title, *schedule; /* schedule NULL: not said */
    int stages, parts;
    sl_time makespan; /* SL_TIME_NEVER: from the first op to the last end */
    sl_page_chart chart[2];
    int charts;
} sl_page_data;

/** May stand in a script element. SL_ENOMEM. */
sl_status sl_page_data_write(const sl_page_data *data, FILE *out);
