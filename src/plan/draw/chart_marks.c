#include "base/memory.h"
#include "plan/draw/chart_inside.h"
#include "plan/draw/escape.h"

#include <math.h>
#include <string.h>

#define LETTER 5.8 /* width of its smaller letters */
#define APART 5.0
#define ROW 11.0
#define PIXEL 0.7
enum { ROWS = 4 };

static double half_of(const char *text) {
    return (LETTER * (double)strlen(text) + APART) / 2;
}

/* Of several lines of one kind on one pixel, only the first is drawn. */
static void find_drawn(const sl_chart *c, const sl_chart_axis *axis, double left, double plot,
                       sl_chart_sign *s) {
    double last[2] = {-INFINITY, -INFINITY};
    for (int i = 0; i < c->marks; i++) {
        const int change = c->mark[i].is_change != 0;
        s[i] = (sl_chart_sign){.x = left + plot * sl_axis_share(axis, c->mark[i].x), .row = -1};
        s[i].drawn = s[i].x >= left && s[i].x <= left + plot && s[i].x - last[change] >= PIXEL;
        if (s[i].drawn)
            last[change] = s[i].x;
    }
}

/* The whole sign; if several words do not fit, the first one. Within the picture, if not above its line. */
static int fit(sl_chart_sign *s, const char *sign, double from, double to, double edge) {
    snprintf(s->text, sizeof s->text, "%s", sign);
    for (int k = 0; k < 2; k++) {
        const double half = half_of(s->text);
        s->at = s->x + half <= edge ? s->x : edge - half;
        if (s->at - half >= from && s->at + half <= to)
            return 1;
        s->text[strcspn(s->text, ",")] = 0;
    }
    return 0;
}

/* Those of changes, or the others between them; from left to right, each in the lowest row with room. */
static void arrange_row(const sl_chart *c, int changes, double edge, sl_chart_signs *signs) {
    double last[ROWS];
    int next[ROWS] = {0};
    for (int row = 0; row < ROWS; row++)
        last[row] = -INFINITY;
    for (int i = 0; i < c->marks; i++) {
        sl_chart_sign *s = &signs->sign[i];
        for (int row = 0; row < ROWS && s->row < 0 && s->drawn && changes == (c->mark[i].is_change != 0);
             row++) {
            while (next[row] < c->marks && (next[row] <= i || signs->sign[next[row]].row != row))
                next[row]++;
            const sl_chart_sign *after = next[row] < c->marks ? &signs->sign[next[row]] : NULL;
            if (fit(s, c->mark[i].sign, last[row], after ? after->at - half_of(after->text) : INFINITY, edge))
                s->row = row;
        }
        if (s->row >= 0)
            last[s->row] = s->at + half_of(s->text);
        signs->rows = s->row >= signs->rows ? s->row + 1 : signs->rows;
    }
}

sl_status sl_chart_signs_arrange(const sl_chart *c, const sl_chart_axis *axis, double left, double plot,
                                 sl_chart_signs *signs) {
    *signs = (sl_chart_signs){0};
    if (!c->x || c->marks == 0)
        return SL_OK;
    SL_TRY(sl_alloc(&signs->sign, (size_t)c->marks, sizeof *signs->sign));
    find_drawn(c, axis, left, plot, signs->sign);
    if (c->style && c->style->no_labels)
        return SL_OK;
    arrange_row(c, 1, left + plot + SL_CHART_SIGNS_OVER, signs);
    arrange_row(c, 0, left + plot + SL_CHART_SIGNS_OVER, signs);
    return SL_OK;
}

void sl_chart_signs_free(sl_chart_signs *signs) {
    sl_free(signs->sign);
    *signs = (sl_chart_signs){0};
}

double sl_chart_signs_height(const sl_chart_signs *signs) {
    return ROW * signs->rows;
}

void sl_chart_signs_draw(const sl_chart *c, const sl_chart_signs *signs, double top, double height,
                         FILE *out) {
    for (int i = 0; i < c->marks && signs->sign; i++) {
        const sl_chart_mark *mark = &c->mark[i];
        const sl_chart_sign *s = &signs->sign[i];
        if (!s->drawn)
            continue;
        fputs("<g><title>", out);
        sl_put_escaped(out, mark->text);
        fprintf(out,
                "</title><path d=\"M%.1f %.1fV%.1f\" stroke=\"#333\" stroke-width=\"%s\"%s/>"
                "<path transform=\"translate(%.1f %.1f)\" d=\"%s\" fill=\"%s\" stroke=\"#333\"/>",
                s->x, top - 2, top + height, mark->is_change ? "1.1" : ".9",
                mark->is_change ? "" : " stroke-dasharray=\"1.5 3\"", s->x, top - 5,
                mark->is_change ? "M0 -5L4 0L0 5L-4 0z" : "M0 4.6L4.2 -3.2H-4.2z",
                mark->is_change ? "#333" : "#fff");
        if (s->row > 0)
            fprintf(out, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#aaa\" stroke-width=\".7\"/>", s->x, top - 10,
                    top - 10 - ROW * s->row);
        if (s->row >= 0) {
            fprintf(out,
                    "<text x=\"%.1f\" y=\"%.1f\" font-size=\"10\" text-anchor=\"middle\" stroke=\"#fff\" "
                    "stroke-width=\"3\" paint-order=\"stroke\">",
                    s->at, top - 12 - ROW * s->row);
            sl_put_escaped(out, s->text);
            fputs("</text>", out);
        }
        fputs("</g>\n", out);
    }
}
