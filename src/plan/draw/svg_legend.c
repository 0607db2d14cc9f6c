/* The legend: items from left to right, in as many lines as they need. */
#include "plan/draw/svg_inside.h"

#include <string.h>

#define LINE 20.0
#define BELOW 30.0 /* between the last line and the picture's edge */

typedef struct legend {
    const sl_svg_content *c;
    FILE *out; /* NULL: only the lines are counted */
    double x, y;
} legend;

/* Room for a swatch of 24 and its text; returns where the swatch begins. */
static double add_item(legend *l, const char *text) {
    double width = 52 + 6.3 * (double)strlen(text);
    if (l->x + width > SL_SVG_LEFT + l->c->plot + SL_SVG_RIGHT && l->x > SL_SVG_LEFT) {
        l->x = SL_SVG_LEFT;
        l->y += LINE;
    }
    if (l->out)
        fprintf(l->out, "<text x=\"%.0f\" y=\"%.1f\">%s</text>", l->x + 30, l->y + 11, text);
    l->x += width;
    return l->x - width;
}

static void add_box(legend *l, const char *text, const char *fill, const char *stroke) {
    double x = add_item(l, text);
    if (l->out)
        fprintf(l->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"22\" height=\"14\" fill=\"%s\" %s/>\n", x, l->y,
                fill, stroke);
}

static void add_line(legend *l, const char *text, const char *more) {
    double x = add_item(l, text);
    if (l->out)
        fprintf(l->out, "<path d=\"M%.0f %.1fh24\" stroke=\"#444\"%s/>\n", x, l->y + 7, more);
}

static void add_items(legend *l) {
    const sl_svg_content *c = l->c;
    const char *edge = c->style && c->style->grey ? "stroke=\"#000\" stroke-width=\".6\"" : "";
    for (int kind = 0; kind < SL_SPAN_KINDS; kind++)
        if (c->kinds[kind])
            add_box(l, kind == SL_GATHER && c->updates ? "update, gather" : sl_svg_kind_name(kind),
                    sl_svg_fill_of(c->style, kind, 0, 1).text, edge);
    if (c->chunks > 1)
        add_box(l, "paler: further stages of a rank", sl_svg_fill_of(c->style, SL_F, 1, 2).text, edge);
    if (c->idle)
        add_box(l, "idle", SL_SVG_IDLE, "");
    if (c->messages) {
        add_line(l, "activation sent", "");
        add_line(l, "gradient sent", " stroke-dasharray=\"3 2\"");
    }
    if (c->wires) {
        add_box(l, "activation on its wire", sl_svg_fill_of(c->style, SL_F, 0, 1).text,
                "stroke=\"#000\" stroke-width=\".6\"");
        if (c->gradients)
            add_box(l, "gradient on its wire", sl_svg_fill_of(c->style, SL_I, 0, 1).text,
                    "stroke=\"#000\" stroke-width=\".6\"");
    }
    if (c->latencies)
        add_box(l, "under way (gradients dashed)", "none", "stroke=\"#000\" stroke-width=\".6\"");
    if (c->memory)
        add_box(l, "memory in use, its peak in the background", "#c4c4c4",
                "stroke=\"#000\" stroke-width=\".6\"");
    if (c->limit)
        add_line(l, "limit", " stroke-dasharray=\"6 3\" stroke-width=\"1.6\"");
    if (c->critical)
        add_box(l, "critical path", "none", "stroke=\"#000\" stroke-width=\"1.6\"");
}

static int is_hidden(const sl_svg_content *c) {
    return c->style && c->style->no_legend;
}

double sl_svg_legend_height(const sl_svg_content *c) {
    legend l = {.c = c, .x = SL_SVG_LEFT};
    if (is_hidden(c))
        return 0;
    add_items(&l);
    return l.y + BELOW;
}

void sl_svg_draw_legend(const sl_svg_content *c, double top, FILE *out) {
    legend l = {.c = c, .out = out, .x = SL_SVG_LEFT, .y = top};
    if (!is_hidden(c))
        add_items(&l);
}
