#include "plan/draw/svg.h"
#include "base/memory.h"
#include "plan/draw/chunk.h"
#include "plan/draw/escape.h"

#include <math.h>
#include <string.h>

#define LEFT 70.0   /* rank labels */
#define PLOT 1100.0 /* the longest timeline */
#define RIGHT 40.0  /* half of the axis' last label */
#define TITLE 30.0
#define BOX 20.0
#define GAP 6.0       /* between rows */
#define WIDE_GAP 16.0 /* the same where messages are drawn */
#define BAR 4.0       /* a collective, in the gap */
#define IDLE "#ededed"
#define AXIS 34.0
#define LEGEND 30.0
#define LINE 20.0 /* of the legend */

/* After Okabe and Ito: told apart by colour-blind readers, and by brightness in grey print. */
static const struct {
    const char *text, *name;
    int colour[3];
} style[SL_SPAN_KINDS] = {{"#000", "F forward", {0x8c, 0xcb, 0xf0}},
                          {"#000", "I backward for the input", {0xe0, 0x8e, 0x00}},
                          {"#fff", "W backward for the weights", {0x00, 0x80, 0x5d}},
                          {"#000", "B full backward", {0xcc, 0x79, 0xa7}},
                          {"#000", "gather", {0xa8, 0xa8, 0xa8}},
                          {"#fff", "reduction", {0x60, 0x60, 0x60}},
                          {"#000", "to host memory", {0xd5, 0x5e, 0x00}},
                          {"#000", "back from it", {0x00, 0x72, 0xb2}}};

typedef struct fill {
    char text[8]; /* "#rrggbb" */
} fill;

/* What the charts show together: for the legend, and for what all boxes have in common. */
typedef struct content {
    int kinds[SL_SPAN_KINDS], messages, critical, idle, chunks, parts;
} content;

/* Where one timeline lies on the picture. */
typedef struct frame {
    sl_time begin, end;
    double scale; /* per ms */
    double top;   /* of the first row */
    double row;   /* height, the gap included */
    const sl_timeline *t;
    const sl_highlight *highlight; /* may be NULL */
    const sl_chunks *chunks;
    const content *content;
} frame;

static double across(const frame *f, sl_time t) {
    return LEFT + sl_to_ms(t - f->begin) * f->scale;
}

static double box_top(const frame *f, int rank) {
    return f->top + f->row * rank + (f->row - BOX) / 2;
}

static void extent(const sl_timeline *t, sl_time *begin, sl_time *end) {
    *begin = t->spans ? SL_TIME_NEVER : 0;
    *end = 0;
    for (int i = 0; i < t->spans; i++) {
        *begin = t->span[i].start < *begin ? t->span[i].start : *begin;
        *end = t->span[i].end > *end ? t->span[i].end : *end;
    }
    for (int i = 0; i < t->collectives; i++) {
        *begin = t->collective[i].start < *begin ? t->collective[i].start : *begin;
        *end = t->collective[i].end > *end ? t->collective[i].end : *end;
    }
}

/* The kind's colour; half way to white for the last stage of a rank with several. */
static fill fill_of(int kind, int chunk, int chunks) {
    fill f;
    int c[3];
    for (int i = 0; i < 3; i++) {
        c[i] = style[kind].colour[i];
        c[i] += chunks > 1 ? (255 - c[i]) * 58 * chunk / (100 * (chunks - 1)) : 0;
    }
    snprintf(f.text, sizeof f.text, "#%02x%02x%02x", c[0] & 255, c[1] & 255, c[2] & 255);
    return f;
}

/* A step of 1, 2 or 5 times a power of ten that gives about ten ticks. */
static double tick_step(double ms) {
    double power = pow(10, floor(log10(ms / 10)));
    double lead = ms / 10 / power;
    return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

static void draw_axis(FILE *out, const frame *f, double bottom) {
    double ms = sl_to_ms(f->end - f->begin), step = tick_step(ms > 0 ? ms : 1);
    for (int i = 0; step * i <= ms * 1.0001 && i < 100; i++) {
        double x = LEFT + step * i * f->scale;
        fprintf(out, "<path d=\"M%.2f %.1fV%.1f\" stroke=\"#ddd\"/>", x, f->top, bottom);
        fprintf(out, "<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\">%.6g%s</text>\n", x, bottom + 14,
                step * i, i == 0 ? " ms" : "");
    }
}

/* The rank's label and a pale bar under its ops, so that idle time is seen as such. */
static void draw_rank(FILE *out, const frame *f, int rank) {
    fprintf(out, "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">rank %d</text>", LEFT - 8,
            box_top(f, rank) + BOX / 2 + 4, rank);
    fprintf(out, "<path d=\"M%.2f %.1fh%.2f\" stroke=\"" IDLE "\" stroke-width=\"%.0f\"/>\n", LEFT,
            box_top(f, rank) + BOX / 2, across(f, f->end) - LEFT, BOX);
}

static int is_paired(const sl_timeline *t, int i) {
    return t->span[i].op.paired || (i > 0 && t->span[i - 1].op.paired);
}

/* Where an op's box lies: the two of a pair share its height. */
static void box_of(const frame *f, int i, double *y, double *height) {
    const sl_span *span = &f->t->span[i];
    *y = box_top(f, span->rank);
    *height = BOX;
    if (!is_paired(f->t, i))
        return;
    *height = BOX / 2;
    *y += span->op.paired ? 0 : BOX / 2;
}

static void put_tooltip(FILE *out, const frame *f, const sl_span *span) {
    fprintf(out, "<title>%s", sl_op_name(span->op.kind));
    if (span->op.microbatch >= 0)
        fprintf(out, "%d", span->op.microbatch);
    if (f->content->parts && span->op.microbatch >= 0)
        fprintf(out, " part %d", span->op.part);
    fprintf(out, " of stage %d, rank %d: %.3f to %.3f ms</title>", span->op.stage, span->rank,
            sl_to_ms(span->start - f->begin), sl_to_ms(span->end - f->begin));
}

static void draw_box(FILE *out, const frame *f, int i) {
    const sl_span *span = &f->t->span[i];
    int chunk = f->chunks->of[span->op.stage];
    double x = across(f, span->start), width = across(f, span->end) - x, y, height;
    box_of(f, i, &y, &height);
    fprintf(out,
            "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\" stroke=\"#fff\" "
            "stroke-width=\"%s\">",
            x, y, width > 0.3 ? width : 0.3, height, fill_of(span->op.kind, chunk, f->chunks->most).text,
            width > 3 ? ".6" : "0");
    put_tooltip(out, f, span);
    fprintf(out, "</rect>");
    char number[16];
    int length = snprintf(number, sizeof number, "%d", span->op.microbatch);
    if (width >= 7.0 * length + 3)
        fprintf(out, "<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"%s\"%s>%s</text>",
                x + width / 2, y + height / 2 + (height < BOX ? 3.3 : 4),
                chunk > 0 ? "#000" : style[span->op.kind].text, height < BOX ? " font-size=\"9\"" : "",
                number);
    fputc('\n', out);
}

static double bar_top(const frame *f, int rank) {
    return box_top(f, rank) + BOX + 1;
}

static void draw_collective(FILE *out, const frame *f, const sl_span *span) {
    double x = across(f, span->start), width = across(f, span->end) - x;
    fprintf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\">", x,
            bar_top(f, span->rank), width > 0.3 ? width : 0.3, BAR, fill_of(span->op.kind, 0, 1).text);
    put_tooltip(out, f, span);
    fputs("</rect>\n", out);
}

static void draw_outline(FILE *out, double x, double y, double width, double height) {
    fprintf(out,
            "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"none\" stroke=\"#000\" "
            "stroke-width=\"1.6\"/>\n",
            x + 0.8, y + 0.8, width > 2.6 ? width - 1.6 : 1, height - 1.6);
}

/* Above the boxes, for neighbours would cover it. */
static void draw_critical(FILE *out, const frame *f) {
    for (int i = 0; f->highlight && i < f->t->spans; i++) {
        const sl_span *span = &f->t->span[i];
        double y, height;
        if (!f->highlight->span[i])
            continue;
        box_of(f, i, &y, &height);
        draw_outline(out, across(f, span->start), y, across(f, span->end) - across(f, span->start), height);
    }
    for (int i = 0; f->highlight && i < f->t->collectives; i++) {
        const sl_span *span = &f->t->collective[i];
        if (f->highlight->collective[i])
            draw_outline(out, across(f, span->start), bar_top(f, span->rank),
                         across(f, span->end) - across(f, span->start), BAR);
    }
}

/* Messages that take less than this are left out: they would only hide the boxes. */
static int is_visible(const frame *f, const sl_transfer *t) {
    return sl_to_ms(t->arrive - t->start) * f->scale >= 4;
}

/* Through the gap between the sender's and the receiver's row. */
static void draw_transfer(FILE *out, const frame *f, int i) {
    const sl_transfer *t = &f->t->transfer[i];
    int critical = f->highlight && f->highlight->transfer[i];
    double from = box_top(f, t->from) + (t->to > t->from ? BOX : 0),
           to = box_top(f, t->to) + (t->to > t->from ? 0 : BOX);
    fprintf(out, "<path d=\"M%.2f %.1fL%.2f %.1f\" stroke=\"%s\" stroke-width=\"%s\"%s/>\n",
            across(f, t->start), from, across(f, t->arrive), to, critical ? "#000" : "#444",
            critical ? "2" : ".8", t->op.kind == SL_F ? "" : " stroke-dasharray=\"3 2\"");
}

static frame place(const sl_svg_chart *chart, double scale, double top) {
    const sl_timeline *t = chart->timeline;
    frame f = {.scale = scale, .top = top, .row = BOX + GAP, .t = t, .highlight = chart->highlight};
    extent(t, &f.begin, &f.end);
    for (int i = 0; i < t->transfers; i++)
        if (is_visible(&f, &t->transfer[i]))
            f.row = BOX + WIDE_GAP;
    return f;
}

static double draw_chart(FILE *out, const sl_svg_chart *chart, const sl_chunks *chunks, const content *c,
                         double scale, double top) {
    const sl_timeline *t = chart->timeline;
    frame f = place(chart, scale, top + TITLE);
    f.chunks = chunks;
    f.content = c;
    double bottom = f.top + f.row * t->ranks;
    fprintf(out, "<text x=\"%.0f\" y=\"%.1f\" font-size=\"14\" font-weight=\"bold\">", LEFT, top + 20);
    sl_put_escaped(out, chart->title);
    fprintf(out, "</text>\n");
    for (int rank = 0; rank < t->ranks; rank++)
        draw_rank(out, &f, rank);
    draw_axis(out, &f, bottom);
    for (int i = 0; i < t->transfers; i++)
        if (is_visible(&f, &t->transfer[i]))
            draw_transfer(out, &f, i);
    for (int i = 0; i < t->spans; i++)
        draw_box(out, &f, i);
    for (int i = 0; i < t->collectives; i++)
        draw_collective(out, &f, &t->collective[i]);
    draw_critical(out, &f);
    return bottom + AXIS;
}

/* ---- the legend: items from left to right, in as many lines as they need ---- */

typedef struct legend {
    FILE *out; /* NULL: only the lines are counted */
    double x, y;
} legend;

/* Room for a swatch of 24 and its text; returns where the swatch begins. */
static double add_item(legend *l, const char *text) {
    double width = 52 + 6.3 * (double)strlen(text);
    if (l->x + width > LEFT + PLOT + RIGHT && l->x > LEFT) {
        l->x = LEFT;
        l->y += LINE;
    }
    if (l->out)
        fprintf(l->out, "<text x=\"%.0f\" y=\"%.1f\">%s</text>", l->x + 30, l->y + 11, text);
    l->x += width;
    return l->x - width;
}

static void add_box(legend *l, const char *text, const char *colour, const char *stroke) {
    double x = add_item(l, text);
    if (l->out)
        fprintf(l->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"22\" height=\"14\" fill=\"%s\" %s/>\n", x, l->y,
                colour, stroke);
}

static void add_line(legend *l, const char *text, const char *more) {
    double x = add_item(l, text);
    if (l->out)
        fprintf(l->out, "<path d=\"M%.0f %.1fh24\" stroke=\"#444\"%s/>\n", x, l->y + 7, more);
}

static void add_items(legend *l, const content *c) {
    for (int kind = 0; kind < SL_SPAN_KINDS; kind++)
        if (c->kinds[kind])
            add_box(l, style[kind].name, fill_of(kind, 0, 1).text, "");
    if (c->chunks > 1)
        add_box(l, "paler: further stages of a rank", fill_of(SL_F, 1, 2).text, "");
    if (c->idle)
        add_box(l, "idle", IDLE, "");
    if (c->messages) {
        add_line(l, "activation sent", "");
        add_line(l, "gradient sent", " stroke-dasharray=\"3 2\"");
    }
    if (c->critical)
        add_box(l, "critical path", "none", "stroke=\"#000\" stroke-width=\"1.6\"");
}

/* ---- the whole ---- */

static double longest_of(const sl_svg_chart *charts, int count) {
    double longest = 1e-6;
    for (int k = 0; k < count; k++) {
        sl_time begin, end;
        extent(charts[k].timeline, &begin, &end);
        longest = sl_to_ms(end - begin) > longest ? sl_to_ms(end - begin) : longest;
    }
    return longest;
}

static void look_through(const sl_svg_chart *chart, double scale, content *c) {
    const sl_timeline *t = chart->timeline;
    frame f = place(chart, scale, 0);
    sl_time work = 0;
    for (int i = 0; i < t->spans; i++) {
        c->kinds[t->span[i].op.kind] = 1;
        c->parts |= t->span[i].op.part > 0;
        work += i > 0 && t->span[i - 1].op.paired ? 0 : t->span[i].end - t->span[i].start;
    }
    for (int i = 0; i < t->collectives; i++)
        c->kinds[t->collective[i].op.kind] = 1;
    c->messages |= f.row > BOX + GAP;
    c->critical |= chart->highlight != NULL;
    c->idle |= t->spans > 0 && (double)work < (double)(f.end - f.begin) * t->ranks;
}

static void draw_picture(FILE *out, const sl_svg_chart *charts, const sl_chunks *chunks, int count) {
    double scale = PLOT / longest_of(charts, count), height = 10, top = 4;
    content c = {0};
    for (int k = 0; k < count; k++) {
        look_through(&charts[k], scale, &c);
        c.chunks = chunks[k].most > c.chunks ? chunks[k].most : c.chunks;
        height += TITLE + place(&charts[k], scale, 0).row * charts[k].timeline->ranks + AXIS;
    }
    legend l = {.x = LEFT};
    add_items(&l, &c);
    height += l.y + LEGEND;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
            "height=\"%.0f\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" "
            "height=\"100%%\" fill=\"#fff\"/>\n",
            LEFT + PLOT + RIGHT, height, LEFT + PLOT + RIGHT, height);
    for (int k = 0; k < count; k++)
        top = draw_chart(out, &charts[k], &chunks[k], &c, scale, top);
    l = (legend){.out = out, .x = LEFT, .y = top + 2};
    add_items(&l, &c);
    fprintf(out, "</svg>\n");
}

sl_status sl_draw_svg_charts(const sl_svg_chart *charts, int count, FILE *out) {
    sl_chunks *chunks;
    SL_TRY(sl_alloc(&chunks, (size_t)count, sizeof *chunks));
    sl_status status = SL_OK;
    for (int k = 0; k < count && status == SL_OK; k++)
        status = sl_chunks_make(charts[k].timeline, &chunks[k]);
    if (status == SL_OK) {
        draw_picture(out, charts, chunks, count);
        if (ferror(out))
            status = sl_error_errno(SL_ESYS, "the picture cannot be written");
    }
    for (int k = 0; k < count; k++)
        sl_chunks_free(&chunks[k]);
    sl_free(chunks);
    return status;
}

sl_status sl_draw_svg(const sl_timeline *const *timelines, const char *const *titles, int count, FILE *out) {
    sl_svg_chart *charts;
    SL_TRY(sl_alloc(&charts, (size_t)count, sizeof *charts));
    for (int k = 0; k < count; k++)
        charts[k] = (sl_svg_chart){.timeline = timelines[k], .title = titles[k]};
    sl_status status = sl_draw_svg_charts(charts, count, out);
    sl_free(charts);
    return status;
}
