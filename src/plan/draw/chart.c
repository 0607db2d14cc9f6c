#include "plan/draw/chart.h"
#include "base/memory.h"
#include "plan/draw/axis.h"
#include "plan/draw/chart_inside.h"
#include "plan/draw/escape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEFT 76.0
#define TOP 44.0
#define TOP_UNTITLED 24.0
#define MIN_PLOT 100.0
#define NARROW 280.0 /* minimum width of a plot with names on its right; else they go below it */
#define FONT 12.0
#define RIGHT 14.0
#define OWN_PLOT 620.0 /* without a style */
#define MIN_HEIGHT 360.0
#define BOTTOM 56.0
#define LABEL_GAP 12.0 /* from the plot to the names */
#define SAMPLE 34.0    /* the piece of line before a name */
#define LABEL_ROW 17.0
#define LETTER 7.2
#define MAX_MARKERS 24

/* After Okabe and Ito, without yellow, which is invisible on white paper. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#a0447e", "#000000", "#4ba3d9"};
static const char *const greys[] = {"#000", "#666", "#333", "#888", "#000", "#555"};
static const char *const dashes[] = {"", "7 3", "2 3", "9 3 2 3", "12 4"};
/* Around 0, about 8 wide: circle, square, triangle, diamond, cross, triangle down, plus. */
static const char *const markers[] = {"M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
                                      "M-3.6 -3.6h7.2v7.2h-7.2z",
                                      "M0 -4.6L4.6 3.6H-4.6z",
                                      "M0 -5L5 0L0 5L-5 0z",
                                      "M-3.8 -3.8L3.8 3.8M-3.8 3.8L3.8 -3.8",
                                      "M0 4.6L4.6 -3.6H-4.6z",
                                      "M-4.6 0H4.6M0 -4.6V4.6"};
#define OF(list, i) ((list)[(size_t)(i) % (sizeof(list) / sizeof *(list))])

/* A point's position in the order of x. */
typedef struct plot_area {
    double x; /* on the picture */
    int point;
} plot_area;

typedef struct chart_picture {
    const sl_chart *chart;
    sl_chart_axis x, y;
    double top, plot, height; /* top of the plot, its width and height */
    char title[512];
    int below, rows;  /* names are below it, in this many rows */
    plot_area *areas; /* [points] by x */
    double *label_at; /* [count] position of each name */
    int *by_height;   /* [count] series from the top one */
    sl_chart_signs signs;
    double rare;          /* from this value on, values are at the top; INFINITY: none */
    sl_chart_rare *rares; /* [points] */
    double turn, hang;    /* of categories: angle in degrees, 0: none; the additional height that it needs */
} chart_picture;

static const char *colour_of(const chart_picture *p, int k) {
    return p->chart->style && p->chart->style->grey ? OF(greys, k) : OF(colours, k);
}

/* Whether a point is in the range of the style. */
static int is_seen(const sl_chart *c, int point) {
    const sl_draw_style *s = c->style;
    return !c->x || !s || ((!s->has_from || c->x[point] >= s->from) && (!s->has_to || c->x[point] <= s->to));
}

/* Its value, or NaN if none is drawn. */
static double value_of(const sl_chart *c, int k, int point) {
    return is_seen(c, point) ? c->series[k].y[point] : NAN;
}

static double down(const chart_picture *p, double y) {
    return y < p->rare ? p->top + p->height * (1 - sl_axis_share(&p->y, y)) : p->top;
}

/* ---- ranges ---- */

static void extend(double value, double *low, double *high) {
    if (isfinite(value)) {
        *low = value < *low ? value : *low;
        *high = value > *high ? value : *high;
    }
}

/* From 0, unless that would put all lines into the upper half and is not asked for: then with some room on
 * both sides. */
static sl_chart_axis y_axis(const sl_chart *c, double rare) {
    double low = INFINITY, high = -INFINITY;
    for (int k = 0; k < c->count; k++)
        for (int i = 0; i < c->points; i++)
            if (value_of(c, k, i) < rare)
                extend(value_of(c, k, i), &low, &high);
    double room = 0.03 * (high - low);
    low = low >= 0 && (low < high / 2 || c->from_zero) ? 0 : low - room;
    return sl_axis_around(low, high + room, 8);
}

static sl_chart_axis x_axis(const sl_chart *c, double plot) {
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < c->points; i++)
        if (is_seen(c, i))
            extend(c->x[i], &low, &high);
    const double least = low - 1, most = high + 1; /* a failure is after the last iteration */
    for (int i = 0; i < c->marks && c->x_is_whole; i++)
        if (c->mark[i].x >= least && c->mark[i].x <= most)
            extend(c->mark[i].x, &low, &high);
    if (c->style && c->style->has_from)
        low = c->style->from;
    if (c->style && c->style->has_to)
        high = c->style->to;
    const int wanted = (int)(plot / LETTER / 6), steps = wanted > 10 ? 10 : wanted > 2 ? wanted : 2;
    return c->x_is_whole && isfinite(low) ? sl_axis_whole(low, high, steps)
                                          : sl_axis_around(low, high, steps);
}

static int compare_areas(const void *a, const void *b) {
    const plot_area *one = a, *two = b;
    return one->x != two->x ? (one->x < two->x ? -1 : 1) : one->point - two->point;
}

static void arrange_points(chart_picture *p) {
    const sl_chart *c = p->chart;
    for (int i = 0; i < c->points; i++) {
        double share = c->x ? sl_axis_share(&p->x, c->x[i]) : (i + 0.5) / c->points;
        p->areas[i] = (plot_area){.x = LEFT + p->plot * share, .point = i};
    }
    qsort(p->areas, (size_t)c->points, sizeof *p->areas, compare_areas);
}

/* ---- names ---- */

/* The height of a line's end; below the plot if it has no points. */
static double end_of(const chart_picture *p, int k) {
    for (int i = p->chart->points - 1; i >= 0 && p->chart->x; i--) {
        double y = value_of(p->chart, k, p->areas[i].point);
        if (isfinite(y))
            return down(p, y);
    }
    return p->chart->x ? p->top + p->height : p->top;
}

/* Draws names as near to the ends of their lines as possible without overlap: sorted by height, pushed down
 * if they touch, and the last ones back up if they leave the plot. */
static void arrange_labels(chart_picture *p) {
    int count = p->chart->count;
    for (int k = 0; k < count && p->below; k++)
        p->label_at[k] = p->top + p->height + BOTTOM + p->hang + LABEL_ROW * k;
    if (p->below)
        return;
    for (int k = 0; k < count; k++) {
        int at = k;
        p->label_at[k] = end_of(p, k);
        for (; at > 0 && p->label_at[p->by_height[at - 1]] > p->label_at[k]; at--)
            p->by_height[at] = p->by_height[at - 1];
        p->by_height[at] = k;
    }
    for (int i = 1; i < count; i++) {
        double least = p->label_at[p->by_height[i - 1]] + LABEL_ROW;
        if (p->label_at[p->by_height[i]] < least)
            p->label_at[p->by_height[i]] = least;
    }
    for (int i = count - 1; i >= 0; i--) {
        double most = i == count - 1 ? p->top + p->height : p->label_at[p->by_height[i + 1]] - LABEL_ROW;
        if (p->label_at[p->by_height[i]] > most)
            p->label_at[p->by_height[i]] = most;
    }
}

static double widest_name(const sl_chart *c) {
    size_t most = 0;
    for (int k = 0; k < c->count; k++)
        most = strlen(c->series[k].name) > most ? strlen(c->series[k].name) : most;
    return LETTER * (double)most;
}

/* ---- drawing ---- */

static void put_text(FILE *out, double x, double y, const char *more, const char *text) {
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, more);
    sl_put_escaped(out, text);
    fputs("</text>\n", out);
}

static void draw_y_axis(const chart_picture *p, FILE *out) {
    char text[64];
    for (int i = 0; i <= p->y.steps; i++) {
        double y = down(p, sl_axis_tick(&p->y, i));
        fprintf(out, "<path d=\"M%.1f %.1fh%.1f\" stroke=\"#ddd\"/>", LEFT, y, p->plot);
        sl_axis_label(&p->y, i, text, sizeof text);
        put_text(out, LEFT - 8, y + 4, " text-anchor=\"end\"", text);
    }
    fprintf(out, "<text transform=\"translate(18 %.1f) rotate(-90)\" text-anchor=\"middle\">",
            p->top + p->height / 2);
    sl_put_escaped(out, p->chart->y_label);
    fputs("</text>\n", out);
}

static void draw_categories(const chart_picture *p, FILE *out) {
    const sl_chart *c = p->chart;
    for (int i = 0; i < c->points; i++) {
        fprintf(out, "<text transform=\"translate(%.1f %.1f)", p->areas[i].x, p->top + p->height + 17);
        if (p->turn > 0)
            fprintf(out, " rotate(-%.0f)", p->turn);
        fprintf(out, "\" text-anchor=\"%s\">", p->turn > 0 ? "end" : "middle");
        sl_put_escaped(out, c->label[i]);
        fputs("</text>\n", out);
    }
}

static void draw_x_axis(const chart_picture *p, FILE *out) {
    char text[64];
    double bottom = p->top + p->height;
    for (int i = 0; p->chart->x && i <= p->x.steps; i++) {
        double x = LEFT + p->plot * i / p->x.steps;
        fprintf(out, "<path d=\"M%.1f %.1fv5\" stroke=\"#444\"/>", x, bottom);
        sl_axis_label(&p->x, i, text, sizeof text);
        put_text(out, x, bottom + 18, " text-anchor=\"middle\"", text);
    }
    if (!p->chart->x)
        draw_categories(p, out);
    fprintf(out, "<path d=\"M%.1f %.1fV%.1fH%.1f\" fill=\"none\" stroke=\"#444\"/>\n", LEFT, p->top, bottom,
            LEFT + p->plot);
    put_text(out, LEFT + p->plot / 2, bottom + 44 + p->hang, " text-anchor=\"middle\"", p->chart->x_label);
}

/* Equal lines cover each other, so the first is wide, and later ones are narrower and dashed. */
static void put_line_style(const chart_picture *p, int k, FILE *out) {
    if (p->chart->series[k].is_reference)
        fprintf(out, "fill=\"none\" stroke=\"#555\" stroke-width=\"1.2\" stroke-dasharray=\"1.5 2\"");
    else
        fprintf(out,
                "fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" stroke-dasharray=\"%s\" "
                "stroke-linejoin=\"round\"",
                colour_of(p, k),
                k == 0  ? 2.6
                : k < 3 ? 2.0
                        : 1.6,
                OF(dashes, k)[0] ? OF(dashes, k) : "none");
}

/* Over categories, a reference is a short line at each of them. */
static void draw_pieces(const chart_picture *p, int k, FILE *out) {
    const sl_chart *c = p->chart;
    double half = p->plot / c->points * 0.4;
    for (int i = 0; i < c->points; i++) {
        double y = value_of(c, k, p->areas[i].point);
        if (!isfinite(y))
            continue;
        fprintf(out, "<path d=\"M%.2f %.2fh%.2f\" ", p->areas[i].x - half, down(p, y), 2 * half);
        put_line_style(p, k, out);
        fputs("/>\n", out);
    }
}

static int has_points(const sl_chart *c, int k) {
    int any = 0;
    for (int i = 0; i < c->points; i++)
        any |= isfinite(value_of(c, k, i));
    return any;
}

static void draw_line(const chart_picture *p, int k, FILE *out) {
    const sl_chart *c = p->chart;
    int drawing = 0;
    if (!has_points(c, k))
        return;
    fputs("<path d=\"", out);
    for (int i = 0; i < c->points; i++) {
        double y = value_of(c, k, p->areas[i].point);
        if (isfinite(y))
            fprintf(out, "%s%.2f %.2f", drawing ? "L" : "M", p->areas[i].x, down(p, y));
        drawing = isfinite(y);
    }
    fputs("\" ", out);
    put_line_style(p, k, out);
    fputs("/>\n", out);
}

static void begin_marker(const chart_picture *p, double x, double y, int k, FILE *out) {
    fprintf(
        out,
        "<path transform=\"translate(%.2f %.2f)\" d=\"%s\" fill=\"%s\" stroke=\"%s\" stroke-width=\"1.4\"", x,
        y, OF(markers, k), k % 2 ? "#fff" : colour_of(p, k), colour_of(p, k));
}

/* Over categories, the markers of one category are side by side. */
static double aside(const chart_picture *p, int k) {
    int count = p->chart->count;
    double room = p->plot / p->chart->points * 0.7 / count;
    return p->chart->x ? 0 : (k - (count - 1) / 2.0) * (room < 14 ? room : 14);
}

static void draw_markers(const chart_picture *p, int k, FILE *out) {
    const sl_chart *c = p->chart;
    int every = c->x ? (c->points + MAX_MARKERS - 1) / MAX_MARKERS : 1;
    for (int i = 0; i < c->points; i++) {
        int point = p->areas[i].point, alone = 1;
        double y = value_of(c, k, point);
        if (i > 0)
            alone &= !isfinite(value_of(c, k, p->areas[i - 1].point));
        if (i + 1 < c->points)
            alone &= !isfinite(value_of(c, k, p->areas[i + 1].point));
        if (!isfinite(y) || y >= p->rare || (i % every != 0 && !alone && i != c->points - 1))
            continue;
        begin_marker(p, p->areas[i].x + aside(p, k), down(p, y), k, out);
        fputs("><title>", out);
        sl_put_escaped(out, c->series[k].name);
        fprintf(out, ": %.9g at ", y);
        sl_put_escaped(out, c->label[point]);
        fputs("</title></path>\n", out);
    }
}

/* The largest value of each point that has a rare one. */
static void draw_rare(const chart_picture *p, FILE *out) {
    const sl_chart *c = p->chart;
    size_t count = 0;
    for (int i = 0; i < c->points; i++) {
        sl_chart_rare r = {.x = p->areas[i].x, .value = -INFINITY, .point = p->areas[i].point};
        for (int k = 0; k < c->count; k++)
            r.value = fmax(r.value, isfinite(value_of(c, k, r.point)) ? value_of(c, k, r.point) : -INFINITY);
        if (r.value >= p->rare)
            p->rares[count++] = r;
    }
    sl_chart_rare_draw(c, p->rares, count, LEFT + p->plot, p->top, out);
}

static sl_status find_rare(chart_picture *p) {
    const sl_chart *c = p->chart;
    unsigned char *seen;
    p->rare = INFINITY;
    if (!c->x || !c->cuts_rare)
        return SL_OK;
    SL_TRY(sl_alloc(&p->rares, (size_t)c->points, sizeof *p->rares));
    SL_TRY(sl_alloc(&seen, (size_t)c->points, 1));
    for (int i = 0; i < c->points; i++)
        seen[i] = (unsigned char)is_seen(c, i);
    sl_status status = sl_chart_rare_find(c, seen, &p->rare);
    sl_free(seen);
    return status;
}

static void draw_name(const chart_picture *p, int k, FILE *out) {
    const sl_chart_line *series = &p->chart->series[k];
    double x = p->below ? LEFT : LEFT + p->plot + LABEL_GAP, y = p->label_at[k];
    int there = has_points(p->chart, k);
    if (there && (p->chart->x || series->is_reference)) {
        fprintf(out, "<path d=\"M%.1f %.1fh%.1f\" ", x, y, SAMPLE - 6);
        put_line_style(p, k, out);
        fputs("/>", out);
    }
    if (there && !series->is_reference) {
        begin_marker(p, x + (SAMPLE - 6) / 2, y, k, out);
        fputs("/>", out);
    }
    if (!there)
        put_text(out, x, y + 4, " fill=\"#666\"", "none");
    put_text(out, x + SAMPLE, y + 4, there ? "" : " fill=\"#666\" font-style=\"italic\"", series->name);
}

static int has_names(const sl_chart *c) {
    return !(c->style && c->style->no_legend);
}

/* Categories that would overlap are written at an angle, steeper if the first would leave the picture on its
 * left. */
static void turn_categories(chart_picture *p) {
    const sl_chart *c = p->chart;
    const double degree = 3.14159265358979 / 180;
    size_t longest = 0;
    for (int i = 0; i < c->points && !c->x; i++)
        longest = strlen(c->label[i]) > longest ? strlen(c->label[i]) : longest;
    const double length = LETTER * (double)longest, room = LEFT + p->plot / (2 * fmax(c->points, 1)) - 4;
    if (c->x || length <= p->plot / fmax(c->points, 1) - 6)
        return;
    p->turn = 25;
    if (length * cos(p->turn * degree) > room)
        p->turn = acos(room / length) / degree;
    p->hang = fmax(0, length * sin(p->turn * degree) - 14);
}

/* Uses the style's width: names on the right of the plot, or below it if the plot would be too narrow. */
static sl_status divide(chart_picture *p) {
    const sl_chart *c = p->chart;
    const char *name = c->style ? c->style->name : NULL;
    if (c->style && c->style->title)
        snprintf(p->title, sizeof p->title, "%s", c->style->title);
    else
        snprintf(p->title, sizeof p->title, "%s%s%s", name ? name : "", name ? ": " : "", c->title);
    const double names = has_names(c) ? LABEL_GAP + SAMPLE + widest_name(c) + 12 : RIGHT;
    const int stacked = c->style && c->style->names_below;
    const double width = sl_style_width(c->style, LEFT + OWN_PLOT + (stacked ? RIGHT : names), FONT);
    p->plot = width - LEFT - names;
    p->below = has_names(c) && (p->plot < NARROW || stacked);
    if (p->below)
        p->plot = width - LEFT - RIGHT;
    p->rows = p->below ? c->count : 0;
    turn_categories(p);
    const int lines = sl_style_title(p->title, 0, 0, width - LEFT, NULL);
    p->top = lines > 0 ? TOP + 17 * (lines - 1) : TOP_UNTITLED;
    p->height = LABEL_ROW * (p->below ? 0 : c->count + 1);
    if (p->height < fmin(MIN_HEIGHT, p->plot * 0.62))
        p->height = fmin(MIN_HEIGHT, p->plot * 0.62);
    if (p->plot < MIN_PLOT)
        return sl_error(SL_EINVAL,
                        "the picture is too narrow for its text: make it wider, or the text smaller");
    return SL_OK;
}

static void draw(const chart_picture *p, FILE *out) {
    const sl_chart *c = p->chart;
    double names = has_names(c) && !p->below ? LABEL_GAP + SAMPLE + widest_name(c) + 12 : RIGHT,
           height = p->top + p->height + BOTTOM + p->hang + LABEL_ROW * p->rows;
    sl_style_begin(c->style, LEFT + p->plot + names, height, FONT, out);
    sl_style_title(p->title, LEFT, 24, p->plot + names, out);
    draw_y_axis(p, out);
    draw_x_axis(p, out);
    sl_chart_signs_draw(c, &p->signs, p->top, p->height, out);
    for (int k = 0; k < c->count; k++)
        if (c->x)
            draw_line(p, k, out);
        else if (c->series[k].is_reference)
            draw_pieces(p, k, out);
    for (int k = 0; k < c->count; k++)
        if (!c->series[k].is_reference)
            draw_markers(p, k, out);
    if (p->rares)
        draw_rare(p, out);
    for (int k = 0; k < c->count && has_names(c); k++)
        draw_name(p, k, out);
    sl_style_end(c->style, out);
}

sl_status sl_draw_chart(const sl_chart *chart, FILE *out) {
    chart_picture p = {.chart = chart};
    size_t count = (size_t)chart->count;
    sl_status status;
    SL_TRY(divide(&p));
    SL_TRY_GOTO(done, status, find_rare(&p));
    p.y = y_axis(chart, p.rare);
    if (chart->x)
        p.x = x_axis(chart, p.plot);
    SL_TRY_GOTO(done, status, sl_chart_signs_arrange(chart, &p.x, LEFT, p.plot, &p.signs));
    p.top += sl_chart_signs_height(&p.signs);
    SL_TRY_GOTO(done, status, sl_alloc(&p.areas, (size_t)chart->points, sizeof *p.areas));
    SL_TRY_GOTO(done, status, sl_alloc(&p.label_at, count, sizeof *p.label_at));
    SL_TRY_GOTO(done, status, sl_alloc(&p.by_height, count, sizeof *p.by_height));
    arrange_points(&p);
    arrange_labels(&p);
    draw(&p, out);
    if (fflush(out) != 0 || ferror(out))
        status = sl_error_errno(SL_ESYS, "the chart cannot be written");
done:
    sl_chart_signs_free(&p.signs);
    SL_FREE(p.areas, p.label_at, p.by_height, p.rares);
    return status;
}
