#include "plan/draw/svg.h"
#include "base/memory.h"
#include "plan/draw/svg_inside.h"

#include <math.h>

#define LEFT SL_SVG_LEFT
#define PLOT 1100.0 /* the longest timeline */
#define MIN_PLOT 100.0
#define TITLE 30.0
#define TITLE_LINE 17.0
#define NO_TITLE 8.0
#define DETAIL_LINE 15.0
#define BOX SL_SVG_BOX
#define GAP 6.0       /* between rows */
#define WIDE_GAP 16.0 /* the same if messages are drawn */
#define BAR 4.0       /* a collective, in the gap */
#define AXIS 34.0

typedef sl_svg_frame svg_area;

double sl_svg_across(const svg_area *f, sl_time t) {
    t = t < f->from ? f->from : t > f->to ? f->to : t;
    return LEFT + sl_to_ms(t - f->from) * f->scale;
}

int sl_svg_shows(const svg_area *f, sl_time start, sl_time end) {
    return end >= f->from && start <= f->to && (end > f->from || start == end) &&
           (start < f->to || start == end);
}

void sl_svg_label(double y, const char *text, FILE *out) {
    fprintf(out, "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>", LEFT - 8, y, text);
}

static double box_top(const svg_area *f, int rank) {
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

static sl_time first_op(const sl_timeline *t) {
    sl_time first = t->spans ? SL_TIME_NEVER : 0;
    for (int i = 0; i < t->spans; i++)
        first = t->span[i].start < first ? t->span[i].start : first;
    return first;
}

/* A step of 1, 2 or 5 times a power of ten that gives about `most` ticks. */
static double tick_step(double ms, double most) {
    double power = pow(10, floor(log10(ms / most)));
    double lead = ms / most / power;
    return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

static void draw_axis(FILE *out, const svg_area *f) {
    double from = sl_to_ms(f->from - f->origin), ms = sl_to_ms(f->to - f->from);
    double most = f->content->plot < PLOT / 2 ? f->content->plot / 60 : 10;
    double step = tick_step(f->content->plot / f->scale, most > 2 ? most : 2); /* the same in all charts */
    double first = ceil(from / step - 1e-9) * step;
    for (int i = 0; first + step * i <= from + ms * 1.0001 && i < 100; i++) {
        double x = LEFT + (first + step * i - from) * f->scale;
        fprintf(out, "<path d=\"M%.2f %.1fV%.1f\" stroke=\"#ddd\"/>", x, f->top, f->bottom);
        fprintf(out, "<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\">%.6g%s</text>\n", x, f->bottom + 14,
                fabs(first + step * i) < step / 2 ? 0 : first + step * i, i == 0 ? " ms" : "");
    }
}

/* The rank's label and a pale bar under its ops, which makes idle time visible. */
static void draw_rank(FILE *out, const svg_area *f, int rank) {
    char text[32];
    snprintf(text, sizeof text, "rank %d", rank);
    sl_svg_label(box_top(f, rank) + BOX / 2 + 4, text, out);
    fprintf(out, "<path d=\"M%.2f %.1fh%.2f\" stroke=\"" SL_SVG_IDLE "\" stroke-width=\"%.0f\"/>\n", LEFT,
            box_top(f, rank) + BOX / 2, sl_svg_across(f, f->to) - LEFT, BOX);
}

/* The position of an op's box: the two ops of a pair share its height. */
static void box_of(const svg_area *f, int i, double *y, double *height) {
    const sl_span *span = &f->t->span[i];
    *y = box_top(f, span->rank);
    *height = BOX;
    if (!sl_timeline_is_paired(f->t, i))
        return;
    *height = BOX / 2;
    *y += span->op.paired ? 0 : BOX / 2;
}

static void put_tooltip(FILE *out, const svg_area *f, const sl_span *span) {
    const int update = f->t->measured && span->op.kind == SL_GATHER;
    fprintf(out, "<title>%s", update ? "update" : sl_op_name(span->op.kind));
    if (span->op.microbatch >= 0)
        fprintf(out, "%d", span->op.microbatch);
    if (f->content->parts && span->op.microbatch >= 0)
        fprintf(out, " part %d", span->op.part);
    fprintf(out, " of stage %d, rank %d: %.3f to %.3f ms</title>", span->op.stage, span->rank,
            sl_to_ms(span->start - f->origin), sl_to_ms(span->end - f->origin));
}

static void draw_box(FILE *out, const svg_area *f, int i) {
    const sl_span *span = &f->t->span[i];
    const sl_draw_style *style = f->content->style;
    int chunk = f->chunks->of[span->op.stage];
    double x = sl_svg_across(f, span->start), width = sl_svg_across(f, span->end) - x, y, height;
    const sl_svg_fill fill = sl_svg_fill_of(style, span->op.kind, chunk, f->chunks->most);
    box_of(f, i, &y, &height);
    fprintf(out,
            "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\" stroke=\"%s\" "
            "stroke-width=\"%s\">",
            x, y, width > 0.3 ? width : 0.3, height, fill.text, sl_svg_edge(style), width > 3 ? ".6" : "0");
    put_tooltip(out, f, span);
    fprintf(out, "</rect>");
    char number[16];
    int length = snprintf(number, sizeof number, "%d", span->op.microbatch);
    const int is_tight = height < BOX || width < 7.0 * length + 3; /* smaller letters need less room */
    if (width >= (is_tight ? 6.0 : 7.0) * length + 3 && !(style && style->no_labels))
        fprintf(out, "<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"%s\"%s%s>%s</text>",
                x + width / 2, y + height / 2 + (is_tight ? 3.3 : 4), fill.letter,
                is_tight ? " font-size=\"9\"" : "", fill.more, number);
    fputc('\n', out);
}

static double bar_top(const svg_area *f, int rank) {
    return box_top(f, rank) + BOX + 1;
}

static void draw_collective(FILE *out, const svg_area *f, const sl_span *span) {
    double x = sl_svg_across(f, span->start), width = sl_svg_across(f, span->end) - x;
    fprintf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\">", x,
            bar_top(f, span->rank), width > 0.3 ? width : 0.3, BAR,
            sl_svg_fill_of(f->content->style, span->op.kind, 0, 1).text);
    put_tooltip(out, f, span);
    fputs("</rect>\n", out);
}

static void draw_outline(FILE *out, double x, double y, double width, double height) {
    fprintf(out,
            "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"none\" stroke=\"#000\" "
            "stroke-width=\"1.6\"/>\n",
            x + 0.8, y + 0.8, width > 2.6 ? width - 1.6 : 1, height - 1.6);
}

/* Above the boxes, because neighbors would cover it. */
static void draw_critical(FILE *out, const svg_area *f) {
    const sl_highlight *h = f->chart->highlight;
    for (int i = 0; h && i < f->t->spans; i++) {
        const sl_span *span = &f->t->span[i];
        double y, height;
        if (!h->span[i] || !sl_svg_shows(f, span->start, span->end))
            continue;
        box_of(f, i, &y, &height);
        draw_outline(out, sl_svg_across(f, span->start), y,
                     sl_svg_across(f, span->end) - sl_svg_across(f, span->start), height);
    }
    for (int i = 0; h && i < f->t->collectives; i++) {
        const sl_span *span = &f->t->collective[i];
        if (h->collective[i] && sl_svg_shows(f, span->start, span->end))
            draw_outline(out, sl_svg_across(f, span->start), bar_top(f, span->rank),
                         sl_svg_across(f, span->end) - sl_svg_across(f, span->start), BAR);
    }
}

/* Shorter messages are left out: they would only hide the boxes. */
static int is_visible(const svg_area *f, const sl_transfer *t) {
    return f->chart->messages == SL_MESSAGES_LINES && !f->chart->no_ops &&
           sl_to_ms(t->arrive - t->start) * f->scale >= 4;
}

/* Through the gap between the sender's and the receiver's row; for a message that is cut off, the visible
 * part. */
static void draw_transfer(FILE *out, const svg_area *f, int i) {
    const sl_transfer *t = &f->t->transfer[i];
    int critical = f->chart->highlight && f->chart->highlight->transfer[i];
    double from = box_top(f, t->from) + (t->to > t->from ? BOX : 0),
           to = box_top(f, t->to) + (t->to > t->from ? 0 : BOX), whole = (double)(t->arrive - t->start);
    double begin = t->start < f->from ? (double)(f->from - t->start) / whole : 0,
           end = t->arrive > f->to ? (double)(f->to - t->start) / whole : 1;
    fprintf(out, "<path d=\"M%.2f %.1fL%.2f %.1f\" stroke=\"%s\" stroke-width=\"%s\"%s/>\n",
            sl_svg_across(f, t->start), from + (to - from) * begin, sl_svg_across(f, t->arrive),
            from + (to - from) * end, critical ? "#000" : "#444", critical ? "2" : ".8",
            t->op.kind == SL_F ? "" : " stroke-dasharray=\"3 2\"");
}

/* ---- positions of the charts ---- */

/* Common to all charts: the updates before their first ops, and their length from there on. */
typedef struct axis {
    sl_time lead, longest;
    double scale;
} axis;

static axis axis_of(const sl_svg_chart *charts, int count, const sl_draw_style *style, double plot) {
    axis a = {0};
    sl_time begin, end;
    for (int k = 0; k < count; k++) {
        extent(charts[k].timeline, &begin, &end);
        const sl_time lead = first_op(charts[k].timeline) - begin;
        a.lead = lead > a.lead ? lead : a.lead;
    }
    for (int k = 0; k < count; k++) {
        extent(charts[k].timeline, &begin, &end);
        sl_time length = end - (first_op(charts[k].timeline) - a.lead);
        for (int i = 0; i < charts[k].callouts; i++)
            length = charts[k].callout[i].to + a.lead > length ? charts[k].callout[i].to + a.lead : length;
        a.longest = length > a.longest ? length : a.longest;
    }
    double from = style && style->has_from ? style->from : 0,
           to = style && style->has_to ? style->to : sl_to_ms(a.longest);
    a.scale = plot / (to - from > 1e-6 ? to - from : 1e-6);
    return a;
}

static int detail_lines(const sl_svg_chart *chart, double plot) {
    return sl_style_lines(chart->detail, 0, 0, plot + SL_SVG_RIGHT, NULL);
}

/* Rows of ops need more room if messages are drawn between them. */
static void lay_out(const sl_svg_chart *chart, const axis *a, const sl_lanes *lanes,
                    const sl_draw_style *style, double plot, double top, svg_area *f) {
    const sl_timeline *t = chart->timeline;
    sl_time begin;
    *f = (svg_area){.scale = a->scale, .row = BOX + GAP, .t = t, .chart = chart, .lanes = lanes};
    extent(t, &begin, &f->to);
    f->first = first_op(t);
    f->origin = f->first - a->lead;
    f->from = f->origin + (style && style->has_from ? sl_from_ms(style->from) : 0);
    if (style && style->has_to && f->to > f->origin + sl_from_ms(style->to))
        f->to = f->origin + sl_from_ms(style->to);
    f->to = f->to < f->from ? f->from : f->to;
    for (int i = 0; i < t->transfers; i++)
        if (is_visible(f, &t->transfer[i]))
            f->row = BOX + WIDE_GAP;
    int lines = sl_style_title(chart->title, 0, 0, plot + SL_SVG_RIGHT, NULL);
    f->top = top + (lines > 0 ? TITLE + TITLE_LINE * (lines - 1) : NO_TITLE) +
             DETAIL_LINE * detail_lines(chart, plot) + sl_svg_callouts_height(chart);
    f->lanes_top = f->top + (chart->no_ops ? 0 : f->row * t->ranks);
    f->memory_top = f->lanes_top + sl_svg_lanes_height(lanes);
    f->bottom = f->memory_top + (chart->memory ? sl_svg_memory_height(t) : 0);
}

static void draw_ops(FILE *out, const svg_area *f) {
    const sl_timeline *t = f->t;
    for (int i = 0; i < t->transfers; i++)
        if (is_visible(f, &t->transfer[i]) && sl_svg_shows(f, t->transfer[i].start, t->transfer[i].arrive))
            draw_transfer(out, f, i);
    for (int i = 0; i < t->spans; i++)
        if (sl_svg_shows(f, t->span[i].start, t->span[i].end))
            draw_box(out, f, i);
    for (int i = 0; i < t->collectives; i++)
        if (sl_svg_shows(f, t->collective[i].start, t->collective[i].end))
            draw_collective(out, f, &t->collective[i]);
    draw_critical(out, f);
}

static void draw_chart(FILE *out, const svg_area *f, double top) {
    const double room = f->content->plot + SL_SVG_RIGHT;
    const int lines = sl_style_title(f->chart->title, LEFT, top + 20, room, out);
    sl_style_lines(f->chart->detail, LEFT, top + 20 + TITLE_LINE * lines, room, out);
    for (int rank = 0; rank < f->t->ranks && !f->chart->no_ops; rank++)
        draw_rank(out, f, rank);
    draw_axis(out, f);
    sl_svg_draw_callouts(f, out);
    if (!f->chart->no_ops)
        draw_ops(out, f);
    sl_svg_draw_lanes(f, out);
    if (f->chart->memory)
        sl_svg_draw_memory(f, out);
}

/* ---- the picture ---- */

typedef struct svg_picture {
    const sl_svg_chart *charts;
    sl_chunks *chunks; /* [count] */
    sl_lanes *lanes;   /* [count] */
    int count;
    axis axis;
    sl_svg_content content;
} svg_picture;

static void look_at_ops(const svg_area *f, sl_svg_content *c) {
    const sl_timeline *t = f->t;
    sl_time work = 0, begin, end;
    for (int i = 0; i < t->spans; i++) {
        if (sl_svg_shows(f, t->span[i].start, t->span[i].end))
            c->kinds[t->span[i].op.kind] = 1;
        c->parts |= t->span[i].op.part > 0;
        work += i > 0 && t->span[i - 1].op.paired ? 0 : t->span[i].end - t->span[i].start;
    }
    for (int i = 0; i < t->collectives; i++)
        c->kinds[t->collective[i].op.kind] = 1;
    c->updates |= t->measured;
    extent(t, &begin, &end);
    c->messages |= f->row > BOX + GAP;
    c->idle |= t->spans > 0 && (double)work < (double)(end - begin) * t->ranks;
}

static void look_at_rows(const svg_area *f, sl_svg_content *c) {
    for (int i = 0; i < f->lanes->rides; i++) {
        const sl_transfer *t = &f->t->transfer[f->lanes->ride[i].transfer];
        c->wires |= t->end > t->start;
        c->latencies |= t->arrive > t->end;
        c->gradients |= t->op.kind != SL_F;
    }
    if (!f->chart->memory)
        return;
    double most = sl_svg_most_memory(f->chart->memory, f->t->ranks);
    c->max_memory = most > c->max_memory ? most : c->max_memory;
    c->memory = 1;
    c->limit |= f->chart->memory->limit != NULL;
}

static void look_through(svg_picture *p, const svg_area *f, int k) {
    sl_svg_content *c = &p->content;
    if (!f->chart->no_ops) {
        look_at_ops(f, c);
        c->chunks = p->chunks[k].most > c->chunks ? p->chunks[k].most : c->chunks;
    }
    look_at_rows(f, c);
    c->critical |= f->chart->highlight != NULL && (!f->chart->no_ops || f->lanes->rides > 0);
}

static void draw_picture(FILE *out, svg_picture *p) {
    const sl_draw_style *style = p->content.style;
    double height = 10, top = 4;
    svg_area f;
    for (int k = 0; k < p->count; k++) {
        lay_out(&p->charts[k], &p->axis, &p->lanes[k], style, p->content.plot, 0, &f);
        look_through(p, &f, k);
        height += f.bottom + AXIS;
    }
    height += sl_svg_legend_height(&p->content);
    sl_style_begin(style, LEFT + p->content.plot + SL_SVG_RIGHT, height, SL_SVG_FONT, out);
    sl_svg_define(&p->content, out);
    for (int k = 0; k < p->count; k++) {
        lay_out(&p->charts[k], &p->axis, &p->lanes[k], style, p->content.plot, top, &f);
        f.chunks = &p->chunks[k];
        f.content = &p->content;
        draw_chart(out, &f, top);
        top = f.bottom + AXIS;
    }
    sl_svg_draw_legend(&p->content, top + 2, out);
    sl_style_end(style, out);
}

sl_status sl_draw_svg_charts(const sl_svg_chart *charts, int count, const sl_draw_style *style, FILE *out) {
    svg_picture p = {.charts = charts, .count = count, .content.style = style};
    sl_status status;
    p.content.plot = sl_style_width(style, LEFT + PLOT + SL_SVG_RIGHT, SL_SVG_FONT) - LEFT - SL_SVG_RIGHT;
    if (p.content.plot < MIN_PLOT)
        return sl_error(SL_EINVAL,
                        "the picture is too narrow for its text: make it wider, or the text smaller");
    p.axis = axis_of(charts, count, style, p.content.plot);
    SL_TRY_GOTO(done, status, sl_alloc(&p.chunks, (size_t)count, sizeof *p.chunks));
    SL_TRY_GOTO(done, status, sl_alloc(&p.lanes, (size_t)count, sizeof *p.lanes));
    for (int k = 0; k < count; k++)
        SL_TRY_GOTO(done, status, sl_chunks_make(charts[k].timeline, &p.chunks[k]));
    for (int k = 0; k < count; k++)
        if (charts[k].messages == SL_MESSAGES_LANES)
            SL_TRY_GOTO(done, status, sl_lanes_make(charts[k].timeline, &p.lanes[k]));
    draw_picture(out, &p);
    if (ferror(out))
        status = sl_error_errno(SL_ESYS, "the picture cannot be written");
done:
    for (int k = 0; k < count && p.chunks; k++)
        sl_chunks_free(&p.chunks[k]);
    for (int k = 0; k < count && p.lanes; k++)
        sl_lanes_free(&p.lanes[k]);
    SL_FREE(p.chunks, p.lanes);
    return status;
}

sl_status sl_draw_svg(const sl_timeline *const *timelines, const char *const *titles, int count, FILE *out) {
    sl_svg_chart *charts;
    SL_TRY(sl_alloc(&charts, (size_t)count, sizeof *charts));
    for (int k = 0; k < count; k++)
        charts[k] = (sl_svg_chart){.timeline = timelines[k], .title = titles[k]};
    sl_status status = sl_draw_svg_charts(charts, count, NULL, out);
    sl_free(charts);
    return status;
}
