/* Timelines as an SVG picture: charts, one below the other on one time axis. A chart has rows of ops (a Gantt
 * chart), of messages (a lane a link) and of memory, whichever are asked for. */
#pragma once

#include "plan/draw/highlight.h"
#include "plan/draw/style.h"
#include "plan/timing/replay.h"
#include <stdio.h>

/* What a rank's memory was over the time of a chart. */
typedef struct sl_svg_memory {
    const sl_memory_step *step; /* sl_memory_course, what lies there all the time added */
    const int *first;           /* [ranks + 1] */
    const double *limit;        /* [ranks]; NULL: none */
    const double *always;       /* [ranks] what lies there from the beginning; NULL: nothing does */
} sl_svg_memory;

typedef enum sl_svg_messages { SL_MESSAGES_LINES, SL_MESSAGES_LANES, SL_MESSAGES_NONE } sl_svg_messages;

/* A stretch of a chart's time that is called out above its ops, such as what a fault costs: an arrow with its
 * text, or where it begins and ends at the same time a line with the text on its left. */
typedef struct sl_svg_callout {
    sl_time from, to; /* since the first op's start, from <= to */
    const char *text; /* any text; it is escaped */
    int is_loss;      /* red; else green. In grey both are black, as lines always are */
} sl_svg_callout;

typedef struct sl_svg_chart {
    const sl_timeline *timeline;
    const char *title;             /* any text; it is escaped; empty: no room is kept for it */
    const char *detail;            /* the same in plain letters on a line below it; NULL: nothing */
    const sl_svg_callout *callout; /* [callouts], from left to right */
    int callouts;
    const sl_highlight *highlight; /* the critical path to outline; NULL: none is known */
    int no_ops;                    /* no rows of ops */
    sl_svg_messages messages;      /* lines from row to row; lanes of their own; none */
    const sl_svg_memory *memory;   /* NULL: no rows of memory */
} sl_svg_chart;

/** Charts of which one or more are drawn. Colours tell F, I, W and B apart for colour-blind readers and in
 * grey print, and are paler for the further stages of a rank; in grey, patterns do. Boxes carry the
 * microbatch where it fits; the two of a pair lie one above the other; collectives are bars below the ops;
 * idle time is a pale band; messages that take time are thin lines, or boxes on lanes: filled while they hold
 * the wire, hollow until they have arrived; the critical path is outlined. The charts' first ops stand below
 * each other: updates before them may take longer in one than in another. `style` may be NULL. SL_EINVAL: too
 * narrow for its letters; SL_ENOMEM; SL_ESYS when `out` cannot be written. */
sl_status sl_draw_svg_charts(const sl_svg_chart *charts, int count, const sl_draw_style *style, FILE *out);

/** The same of `count` timelines with their titles, without critical paths: measured ones. */
sl_status sl_draw_svg(const sl_timeline *const *timelines, const char *const *titles, int count, FILE *out);
