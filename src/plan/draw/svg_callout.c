/* Callouts: arrows and lines above a chart's ops, with their texts. */
#include "plan/draw/escape.h"
#include "plan/draw/svg_inside.h"

#include <string.h>

#define HEIGHT 22.0
#define LETTER 7.3 /* bold, of a wide font */
#define HEAD 5.0
#define GAP 6.0
#define EDGE 2.0

double sl_svg_callouts_height(const sl_svg_chart *chart) {
    return chart->callouts > 0 ? HEIGHT : 0;
}

static const char *colour_of(const sl_svg_frame *f, const sl_svg_callout *c) {
    const sl_draw_style *style = f->content->style;
    return c->from == c->to || (style && style->grey) ? "#000" : c->is_loss ? "#b3261e" : "#00694d";
}

/* Also beyond the chart's own ops. */
static double across(const sl_svg_frame *f, sl_time t) {
    return SL_SVG_LEFT + sl_to_ms(f->first + t - f->from) * f->scale;
}

/* Down through the rows of ops. */
static void draw_line(const sl_svg_frame *f, double x, const char *colour, FILE *out) {
    fprintf(out, "<path d=\"M%.2f %.1fV%.1f\" stroke=\"%s\" stroke-dasharray=\"4 3\"/>\n", x,
            f->top - HEIGHT + 2, f->lanes_top, colour);
}

static void draw_arrow(double from, double to, double y, const char *colour, FILE *out) {
    const double back = to > from ? -HEAD : HEAD;
    fprintf(out,
            "<path d=\"M%.2f %.1fH%.2fm%.1f %.1fL%.2f %.1fl%.1f %.1f\" fill=\"none\" stroke=\"%s\" "
            "stroke-width=\"1.5\"/>\n",
            from, y, to, back, -HEAD / 2, to, y, back, HEAD / 2, colour);
}

static void put_text(double x, double y, const char *anchor, const char *colour, const char *text,
                     FILE *out) {
    fprintf(out,
            "<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"%s\" font-weight=\"bold\" fill=\"%s\" stroke=\"#fff\" "
            "stroke-width=\"6\" paint-order=\"stroke\">",
            x, y, anchor, colour);
    sl_put_escaped(out, text);
    fputs("</text>\n", out);
}

static void draw_lines(const sl_svg_frame *f, const sl_svg_callout *c, FILE *out) {
    const double from = across(f, c->from), to = across(f, c->to);
    const char *colour = colour_of(f, c);
    draw_line(f, from, colour, out);
    if (to > from) {
        draw_line(f, to, colour, out);
        const double begin = c->is_loss ? from : to; /* a gain points back */
        draw_arrow(begin, from + to - begin, f->top - HEIGHT / 2, colour, out);
    }
}

/* From right to left: a text that does not fit into its arrow ends where the arrow begins, and texts on its
 * left make room, or are left out. */
static void put_texts(const sl_svg_frame *f, FILE *out) {
    const double y = f->top - HEIGHT / 2 + 4;
    double free = SL_SVG_LEFT + f->content->plot + SL_SVG_RIGHT;
    for (int i = f->chart->callouts - 1; i >= 0; i--) {
        const sl_svg_callout *c = &f->chart->callout[i];
        const double from = across(f, c->from), to = across(f, c->to);
        const double width = LETTER * (double)strlen(c->text);
        if (to - from >= width + 4 * HEAD) {
            put_text((from + to) / 2, y, "middle", colour_of(f, c), c->text, out);
            free = from;
        } else {
            free = from - GAP < free ? from - GAP : free;
            const double end = free > width + EDGE ? free : width + EDGE; /* not cut at the picture's edge */
            if (end - free <= 2 * GAP)
                put_text(end, y, "end", colour_of(f, c), c->text, out);
            free -= width + GAP;
        }
    }
}

void sl_svg_draw_callouts(const sl_svg_frame *f, FILE *out) {
    for (int i = 0; i < f->chart->callouts; i++)
        draw_lines(f, &f->chart->callout[i], out);
    put_texts(f, out);
}
