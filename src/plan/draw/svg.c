#include "plan/draw/svg.h"
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
#define AXIS 34.0
#define LEGEND 30.0

/* After Okabe and Ito: told apart by colour-blind readers, and by brightness in grey print. */
static const struct {
    const char *fill, *text, *name;
} style[SL_OP_KINDS] = {{"#8ccbf0", "#000", "F forward"},
                        {"#e08e00", "#000", "I backward for the input"},
                        {"#00805d", "#fff", "W backward for the weights"},
                        {"#cc79a7", "#000", "B full backward"}};

/* Where one timeline lies on the picture. */
typedef struct frame {
    sl_time begin, end;
    double scale; /* per ms */
    double top;   /* of the first row */
    double row;   /* height, the gap included */
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
    fprintf(out, "<path d=\"M%.2f %.1fh%.2f\" stroke=\"#f2f2f2\" stroke-width=\"%.0f\"/>\n", LEFT,
            box_top(f, rank) + BOX / 2, across(f, f->end) - LEFT, BOX);
}

static void draw_box(FILE *out, const frame *f, const sl_span *span) {
    double x = across(f, span->start), width = across(f, span->end) - x, y = box_top(f, span->rank);
    fprintf(out,
            "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\" stroke=\"#fff\" "
            "stroke-width=\"%s\">",
            x, y, width > 0.3 ? width : 0.3, BOX, style[span->op.kind].fill, width > 3 ? ".6" : "0");
    fprintf(out, "<title>%s%d of stage %d, rank %d: %.3f to %.3f ms</title></rect>",
            sl_op_name(span->op.kind), span->op.microbatch, span->op.stage, span->rank,
            sl_to_ms(span->start - f->begin), sl_to_ms(span->end - f->begin));
    char number[16];
    int length = snprintf(number, sizeof number, "%d", span->op.microbatch);
    if (width >= 7.0 * length + 3)
        fprintf(out, "<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"%s\">%s</text>",
                x + width / 2, y + BOX / 2 + 4, style[span->op.kind].text, number);
    fputc('\n', out);
}

/* Messages that take less than this are left out: they would only hide the boxes. */
static int is_visible(const frame *f, const sl_transfer *t) {
    return sl_to_ms(t->arrive - t->start) * f->scale >= 4;
}

/* Through the gap between the sender's and the receiver's row. */
static void draw_transfer(FILE *out, const frame *f, const sl_transfer *t) {
    double from = box_top(f, t->from) + (t->to > t->from ? BOX : 0),
           to = box_top(f, t->to) + (t->to > t->from ? 0 : BOX);
    fprintf(out, "<path d=\"M%.2f %.1fL%.2f %.1f\" stroke=\"#444\" stroke-width=\".8\"%s/>\n",
            across(f, t->start), from, across(f, t->arrive), to,
            t->op.kind == SL_F ? "" : " stroke-dasharray=\"3 2\"");
}

static frame place(const sl_timeline *t, double scale, double top) {
    frame f = {.scale = scale, .top = top, .row = BOX + GAP};
    extent(t, &f.begin, &f.end);
    for (int i = 0; i < t->transfers; i++)
        if (is_visible(&f, &t->transfer[i]))
            f.row = BOX + WIDE_GAP;
    return f;
}

static double draw_timeline(FILE *out, const sl_timeline *t, const char *title, double scale, double top) {
    frame f = place(t, scale, top + TITLE);
    double bottom = f.top + f.row * t->ranks;
    fprintf(out, "<text x=\"%.0f\" y=\"%.1f\" font-size=\"14\" font-weight=\"bold\">", LEFT, top + 20);
    sl_put_escaped(out, title);
    fprintf(out, "</text>\n");
    for (int rank = 0; rank < t->ranks; rank++)
        draw_rank(out, &f, rank);
    draw_axis(out, &f, bottom);
    for (int i = 0; i < t->transfers; i++)
        if (is_visible(&f, &t->transfer[i]))
            draw_transfer(out, &f, &t->transfer[i]);
    for (int i = 0; i < t->spans; i++)
        draw_box(out, &f, &t->span[i]);
    return bottom + AXIS;
}

static void draw_legend(FILE *out, const int *used, int messages, double y) {
    double x = LEFT;
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        if (!used[kind])
            continue;
        fprintf(out,
                "<rect x=\"%.0f\" y=\"%.1f\" width=\"14\" height=\"14\" fill=\"%s\"/><text x=\"%.0f\" "
                "y=\"%.1f\">%s</text>\n",
                x, y, style[kind].fill, x + 20, y + 11, style[kind].name);
        x += 45 + 6.5 * (double)strlen(style[kind].name);
    }
    if (!messages)
        return;
    for (int gradient = 0; gradient < 2; gradient++, x += 150)
        fprintf(out, "<path d=\"M%.0f %.1fh24\" stroke=\"#444\"%s/><text x=\"%.0f\" y=\"%.1f\">%s</text>\n",
                x, y + 7, gradient ? " stroke-dasharray=\"3 2\"" : "", x + 30, y + 11,
                gradient ? "gradient sent" : "activation sent");
}

sl_status sl_draw_svg(const sl_timeline *const *timelines, const char *const *titles, int count, FILE *out) {
    double height = LEGEND + 10, longest = 1e-6;
    int used[SL_OP_KINDS] = {0}, messages = 0;
    for (int k = 0; k < count; k++) {
        sl_time begin, end;
        extent(timelines[k], &begin, &end);
        longest = sl_to_ms(end - begin) > longest ? sl_to_ms(end - begin) : longest;
        for (int i = 0; i < timelines[k]->spans; i++)
            used[timelines[k]->span[i].op.kind] = 1;
    }
    for (int k = 0; k < count; k++) {
        frame f = place(timelines[k], PLOT / longest, 0);
        messages |= f.row > BOX + GAP;
        height += TITLE + f.row * timelines[k]->ranks + AXIS;
    }
    double width = LEFT + PLOT + RIGHT;
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
        "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" "
        "fill=\"#fff\"/>\n",
        width, height, width, height);
    double top = 4;
    for (int k = 0; k < count; k++)
        top = draw_timeline(out, timelines[k], titles[k], PLOT / longest, top);
    draw_legend(out, used, messages, top + 2);
    fprintf(out, "</svg>\n");
    return ferror(out) ? sl_error_errno(SL_ESYS, "the picture cannot be written") : SL_OK;
}
