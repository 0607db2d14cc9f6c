/* Timelines as an SVG picture: charts, one below the other on one time axis. A chart has rows of ops (a Gantt
 * chart), of messages (one lane per link) and of memory, as requested. */
#pragma once

#include "plan/draw/highlight.h"
#include "plan/draw/style.h"
#include "plan/timing/replay.h"
#include <stdio.h>

/* Memory of each rank over the time of a chart. */
typedef struct sl_svg_memory {
    const sl_memory_step *step; /* sl_memory_course plus permanent use */
    const int *first;           /* [ranks + 1] */
    const double *limit;        /* [ranks]; NULL: none */
    const double *always;       /* [ranks] permanent use; NULL: none */
} sl_svg_memory;

typedef enum sl_svg_messages { SL_MESSAGES_LINES, SL_MESSAGES_LANES, SL_MESSAGES_NONE } sl_svg_messages;

/* A callout above the ops of a chart, such as the cost of a fault: an arrow over a time range with its text,
 * or, if it begins and ends at the same time, a line with the text on its left. */
typedef struct sl_svg_callout {
    sl_time from, to; /* since the first op's start, from <= to */
    const char *text; /* any text; it is escaped */
    int is_loss;      /* red; else green. In gray both are black, like all lines */
} sl_svg_callout;

typedef struct sl_svg_chart {
    const sl_timeline *timeline;
    const char *title;             /* any text; it is escaped; empty: takes no room */
    const char *detail;            /* the same in plain letters on the next line; NULL: none */
    const sl_svg_callout *callout; /* [callouts], from left to right */
    int callouts;
    const sl_highlight *highlight; /* the critical path to outline; NULL: unknown */
    int no_ops;                    /* no rows of ops */
    sl_svg_messages messages;      /* lines between rows; separate lanes; none */
    const sl_svg_memory *memory;   /* NULL: no rows of memory */
} sl_svg_chart;

/** Draws one or more charts. Colors distinguish F, I, W and B for color-blind readers and in gray print, and
 * are paler for the further stages of a rank; in gray, patterns do. Boxes carry the microbatch if it fits;
 * the two ops of a pair are one above the other; collectives are bars below the ops; idle time is a pale
 * band; messages that take time are thin lines, or boxes on lanes: filled while they hold the wire, hollow
 * until they have arrived; the critical path is outlined. The first ops of all charts are aligned: updates
 * before them may take longer in one than in another. `style` may be NULL. SL_EINVAL: too narrow for its
 * letters; SL_ENOMEM; SL_ESYS if `out` cannot be written. */
sl_status sl_draw_svg_charts(const sl_svg_chart *charts, int count, const sl_draw_style *style, FILE *out);

/** The same for `count` timelines with their titles, without critical paths: measured ones. */
sl_status sl_draw_svg(const sl_timeline *const *timelines, const char *const *titles, int count, FILE *out);
