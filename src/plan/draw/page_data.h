/* The numbers that the script of plan/draw/gantt.html draws: one timeline, or two with the same ranks, as
 * JSON. A table is an object of columns; times in ns; null: none. With names, rows have these labels, and
 * links are lanes below the ranks, with messages as separate entries. */
#pragma once

#include "plan/draw/highlight.h"
#include "plan/lower/program.h"

#include <stdio.h>

typedef struct sl_page_chart {
    const char *name; /* NULL: rows are ranks, and there are no lanes */
    const sl_timeline *timeline;
    const sl_program
        *program;         /* the program of the timeline; NULL: unknown, and then no message connects ops */
    const int32_t *cause; /* [spans] as of sl_critical_cause; NULL: unknown */
    const sl_highlight *path; /* NULL: none */
} sl_page_chart;

typedef struct sl_page_data {
    const char *title, *schedule; /* schedule NULL: unknown */
    int stages, parts;
    sl_time makespan; /* SL_TIME_NEVER: from the first op to the last end */
    sl_page_chart chart[2];
    int charts;
} sl_page_data;

/** Usable in a script element. SL_ENOMEM. */
sl_status sl_page_data_write(const sl_page_data *data, FILE *out);
