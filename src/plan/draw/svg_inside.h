/* Inside of plan/draw/svg.h: positions on a picture, and the fills of boxes. */
#pragma once

#include "plan/draw/chunk.h"
#include "plan/draw/lanes.h"
#include "plan/draw/svg.h"

#define SL_SVG_FONT 11.0
#define SL_SVG_LEFT 70.0  /* labels of rows */
#define SL_SVG_RIGHT 40.0 /* half of the axis' last label */
#define SL_SVG_BOX 20.0
#define SL_SVG_IDLE "#ededed"

/* The content of all charts: for the legend and for common properties of boxes. */
typedef struct sl_svg_content {
    int kinds[SL_SPAN_KINDS], messages, gradients, wires, latencies, memory, limit, critical, idle, chunks,
        parts, updates;
    double max_memory; /* of all charts: the height of a row */
    double plot;       /* width */
    const sl_draw_style *style;
} sl_svg_content;

/* The position of one timeline on the picture. */
typedef struct sl_svg_frame {
    sl_time origin;   /* the axis' 0 */
    sl_time from, to; /* the visible range */
    sl_time first;    /* the first op's start */
    double scale;     /* per ms */
    double top;       /* of the first row */
    double row;       /* height of a row of ops, the gap included */
    double lanes_top, memory_top, bottom;
    const sl_svg_chart *chart;
    const sl_timeline *t;
    const sl_chunks *chunks;
    const sl_lanes *lanes; /* none unless shown */
    const sl_svg_content *content;
} sl_svg_frame;

/** The position of a time, limited to the visible range. */
double sl_svg_across(const sl_svg_frame *f, sl_time t);
/** Whether any of it is in the visible range. */
int sl_svg_shows(const sl_svg_frame *f, sl_time start, sl_time end);
/** A row's label. */
void sl_svg_label(double y, const char *text, FILE *out);

/* ---- fills (svg_fill.c) ---- */

typedef struct sl_svg_fill {
    char text[24];      /* a color, or a pattern */
    const char *letter; /* color of the text on it */
    const char *more;   /* attributes of those letters: a rim that separates them from a pattern */
} sl_svg_fill;

/** The name of a kind in the legend. */
const char *sl_svg_kind_name(int kind);
/** Paler for the later of `chunks` stages of a rank. */
sl_svg_fill sl_svg_fill_of(const sl_draw_style *style, int kind, int chunk, int chunks);
/** The edge of a box, which separates neighbors. */
const char *sl_svg_edge(const sl_draw_style *style);
/** Defines the patterns that fills refer to: none in color. */
void sl_svg_define(const sl_svg_content *content, FILE *out);

/* ---- rows of messages and memory (svg_rows.c) ---- */

double sl_svg_lanes_height(const sl_lanes *lanes);
void sl_svg_draw_lanes(const sl_svg_frame *f, FILE *out);
double sl_svg_memory_height(const sl_timeline *t);
void sl_svg_draw_memory(const sl_svg_frame *f, FILE *out);
double sl_svg_most_memory(const sl_svg_memory *memory, int ranks);

/* ---- callouts (svg_callout.c) ---- */

/** The height that they take above the first row; 0: none. */
double sl_svg_callouts_height(const sl_svg_chart *chart);
/** The frame's top is that of the first row, below them. */
void sl_svg_draw_callouts(const sl_svg_frame *f, FILE *out);

/* ---- the legend (svg_legend.c) ---- */

double sl_svg_legend_height(const sl_svg_content *content);
void sl_svg_draw_legend(const sl_svg_content *content, double top, FILE *out);
