#include "plan/draw/svg.h"

#include <math.h>
#include <string.h>

#define LEFT 70.0   /* rank labels */
#define PLOT 1100.0 /* the longest timeline */
#define RIGHT 20.0
#define TITLE 30.0
#define ROW 26.0
#define BOX 20.0
#define AXIS 34.0
#define LEGEND 30.0

/* Okabe and Ito's palette: told apart by colour-blind readers, and by brightness. */
static const struct {
    const char *fill, *text, *name;
} style[SL_OP_KINDS] = {{"#56b4e9", "#000", "F forward"},
                        {"#e69f00", "#000", "I backward for the input"},
                        {"#009e73", "#fff", "W backward for the weights"},
                        {"#cc79a7", "#000", "B full backward"}};

static void put_text(FILE *out, const char *text) {
    for (; *text; text++) {
        const char *named = *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : *text == '"' ? "&quot;" : NULL;
        if (named)
            fputs(named, out);
        else if ((unsigned char)*text >= 32)
            fputc(*text, out);
    }
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

static void draw_axis(FILE *out, double ms, double scale, double top, double bottom) {
    double step = tick_step(ms > 0 ? ms : 1);
    for (int i = 0; step * i <= ms * 1.0001 && i < 100; i++) {
        double x = LEFT + step * i * scale;
        fprintf(out, "<path d=\"M%.2f %.1fV%.1f\" stroke=\"#ddd\"/>", x, top, bottom);
        fprintf(out, "<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\">%.6g%s</text>\n", x, bottom + 14, step * i,
                i == 0 ? " ms" : "");
    }
}

static void draw_box(FILE *out, const sl_span *span, sl_time begin, double scale, double top) {
    double x = LEFT + sl_to_ms(span->start - begin) * scale, width = sl_to_ms(span->end - span->start) * scale;
    double y = top + ROW * span->rank + (ROW - BOX) / 2;
    fprintf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\" stroke=\"#fff\" stroke-width=\".6\">", x,
            y, width > 0.3 ? width : 0.3, BOX, style[span->op.kind].fill);
    fprintf(out, "<title>%s%d of stage %d, rank %d: %.3f to %.3f ms</title></rect>", sl_op_name(span->op.kind),
            span->op.microbatch, span->op.stage, span->rank, sl_to_ms(span->start - begin), sl_to_ms(span->end - begin));
    char number[16];
    int length = snprintf(number, sizeof number, "%d", span->op.microbatch);
    if (width >= 7.0 * length + 3)
        fprintf(out, "<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"%s\">%s</text>", x + width / 2, y + BOX / 2 + 4,
                style[span->op.kind].text, number);
    fputc('\n', out);
}

/* From the sender's row to the receiver's; instant messages would only hide the boxes. */
static void draw_transfer(FILE *out, const sl_transfer *t, sl_time begin, double scale, double top) {
    if (sl_to_ms(t->arrive - t->start) * scale < 4)
        return;
    double from = top + ROW * (t->from + 0.5), to = top + ROW * (t->to + 0.5);
    fprintf(out, "<path d=\"M%.2f %.1fL%.2f %.1f\" stroke=\"#555\" stroke-width=\".7\" stroke-dasharray=\"%s\" fill=\"none\"/>\n",
            LEFT + sl_to_ms(t->start - begin) * scale, from, LEFT + sl_to_ms(t->arrive - begin) * scale, to,
            t->op.kind == SL_F ? "none" : "3 2");
}

static double draw_timeline(FILE *out, const sl_timeline *t, const char *title, double scale, double top) {
    sl_time begin, end;
    extent(t, &begin, &end);
    fprintf(out, "<text x=\"%.0f\" y=\"%.1f\" font-size=\"14\" font-weight=\"bold\">", LEFT, top + 20);
    put_text(out, title);
    fprintf(out, "</text>\n");
    double rows = top + TITLE, bottom = rows + ROW * t->ranks;
    draw_axis(out, sl_to_ms(end - begin), scale, rows, bottom);
    for (int rank = 0; rank < t->ranks; rank++)
        fprintf(out, "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">rank %d</text>\n", LEFT - 8,
                rows + ROW * (rank + 0.5) + 4, rank);
    for (int i = 0; i < t->spans; i++)
        draw_box(out, &t->span[i], begin, scale, rows);
    for (int i = 0; i < t->transfers; i++)
        draw_transfer(out, &t->transfer[i], begin, scale, rows);
    return bottom + AXIS;
}

static void draw_legend(FILE *out, const int *used, double y) {
    double x = LEFT;
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        if (!used[kind])
            continue;
        fprintf(out, "<rect x=\"%.0f\" y=\"%.1f\" width=\"14\" height=\"14\" fill=\"%s\"/><text x=\"%.0f\" y=\"%.1f\">%s</text>\n", x,
                y, style[kind].fill, x + 20, y + 11, style[kind].name);
        x += 45 + 6.5 * (double)strlen(style[kind].name);
    }
    fprintf(out, "<path d=\"M%.0f %.1fh24\" stroke=\"#555\"/><text x=\"%.0f\" y=\"%.1f\">message</text>\n", x, y + 7, x + 30, y + 11);
}

sl_status sl_draw_svg(const sl_timeline *const *timelines, const char *const *titles, int count, FILE *out) {
    double height = LEGEND + 10, longest = 1e-6;
    int used[SL_OP_KINDS] = {0};
    for (int k = 0; k < count; k++) {
        sl_time begin, end;
        extent(timelines[k], &begin, &end);
        longest = sl_to_ms(end - begin) > longest ? sl_to_ms(end - begin) : longest;
        height += TITLE + ROW * timelines[k]->ranks + AXIS;
        for (int i = 0; i < timelines[k]->spans; i++)
            used[timelines[k]->span[i].op.kind] = 1;
    }
    double width = LEFT + PLOT + RIGHT;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            width, height, width, height);
    double top = 4;
    for (int k = 0; k < count; k++)
        top = draw_timeline(out, timelines[k], titles[k], PLOT / longest, top);
    draw_legend(out, used, top + 2);
    fprintf(out, "</svg>\n");
    return ferror(out) ? sl_error_errno(SL_ESYS, "the picture cannot be written") : SL_OK;
}
