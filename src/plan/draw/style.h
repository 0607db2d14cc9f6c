/* The style of a picture on paper: its width, the size of its letters, gray or color. All pictures are laid
 * out in units in which their letters have one size; the number of units across follows from a width and a
 * letter size on paper. An all-zero style is that of the screen. */
#pragma once

#include <stdio.h>

#define SL_PX_OF_PT (96.0 / 72.0)

/* A picture within another. */
typedef struct sl_svg_part {
    char *text; /* its elements */
    double width, height;
} sl_svg_part;

typedef struct sl_draw_style {
    double width;     /* px, 96 to the inch; 0: the picture's own */
    const char *unit; /* of the written width: "mm", "cm", "in", "pt"; NULL: px */
    double font;      /* px; 0: the picture's own */
    int grey;         /* patterns and grays instead of colors */
    int no_labels;    /* no text in boxes, next to bars or above marks */
    int no_legend;
    int names_below;   /* of a chart: below its plot, however wide, so that plots below each other are as wide
                        */
    const char *title; /* instead of a chart's own; NULL: its own */
    const char *name;  /* before its own title, which several charts may share; NULL: nothing */
    sl_svg_part *part; /* not NULL: only the elements are written, and the size goes there */
    int has_from, has_to;
    double from, to; /* of the horizontal axis: ms from a timeline's begin, or iteration numbers */
} sl_draw_style;

/** The width of a picture in its own units, if letters are `font` units high and `own` is its width without a
 * style (`style` may be NULL). */
double sl_style_width(const sl_draw_style *style, double own, double font);

/** Opens the picture: the element svg of `width` x `height` units, on white; or the part of another. */
void sl_style_begin(const sl_draw_style *style, double width, double height, double font, FILE *out);
void sl_style_end(const sl_draw_style *style, FILE *out);

/** A bold title of 14-unit letters, with its first line at y and wrapped into lines of width `room`, 17
 * apart; `out` NULL: nothing is written. Returns the number of lines, 0 for an empty one. */
int sl_style_title(const char *title, double x, double y, double room, FILE *out);

/** The same in plain gray letters of the picture's own size, with lines 15 apart. */
int sl_style_lines(const char *text, double x, double y, double room, FILE *out);

/** px of a unit, "mm" and so on; 0: unknown unit. */
double sl_style_unit(const char *unit);
