/* Bars with their names on the left and their values behind them. */
#include "plan/draw/axis.h"
#include "plan/draw/chart.h"
#include "plan/draw/escape.h"

#include <math.h>
#include <string.h>

#define TOP 54.0
#define ROW 26.0
#define BAR 17.0
#define PLOT 560.0
#define LETTER 7.2
#define BOTTOM 52.0

static double longest_name(const sl_bars *bars) {
    size_t most = 4;
    for (int i = 0; i < bars->count; i++)
        most = strlen(bars->bar[i].name) > most ? strlen(bars->bar[i].name) : most;
    return LETTER * (double)most;
}

static double longest_note(const sl_bars *bars) {
    size_t most = 0;
    for (int i = 0; i < bars->count; i++) {
        size_t length = bars->bar[i].note ? strlen(bars->bar[i].note) : 0;
        if (isfinite(bars->bar[i].value) && length > most)
            most = length;
    }
    return LETTER * ((double)most + 12);
}

static sl_axis axis_of(const sl_bars *bars) {
    double most = isfinite(bars->reference) ? bars->reference : 0;
    for (int i = 0; i < bars->count; i++)
        most = isfinite(bars->bar[i].value) && bars->bar[i].value > most ? bars->bar[i].value : most;
    return sl_axis_around(0, most > 0 ? most : 1, 10);
}

static void draw_axis(const sl_bars *bars, const sl_axis *axis, double left, FILE *out) {
    char text[64];
    double bottom = TOP + ROW * bars->count;
    for (int i = 0; i <= axis->steps; i++) {
        double x = left + PLOT * i / axis->steps;
        sl_axis_label(axis, i, text, sizeof text);
        fprintf(out,
                "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%.1f\" "
                "text-anchor=\"middle\">%s</text>\n",
                x, TOP, bottom, x, bottom + 17, text);
    }
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", left + PLOT / 2, bottom + 40);
    sl_put_escaped(out, bars->x_label);
    fputs("</text>\n", out);
}

static void draw_bar(const sl_bar *bar, const sl_axis *axis, double left, double top, FILE *out) {
    int there = isfinite(bar->value);
    double width = there ? PLOT * sl_axis_place(axis, bar->value) : 0, middle = top + ROW / 2 + 4;
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", left - 8, middle);
    sl_put_escaped(out, bar->name);
    fputs("</text>", out);
    if (there)
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"#4ba3d9\"/>", left,
                top + (ROW - BAR) / 2, width, BAR);
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\"%s>", left + width + 6, middle,
            there ? "" : " fill=\"#666\" font-style=\"italic\"");
    if (there)
        fprintf(out, "%.9g%s", bar->value, bar->note ? " (" : "");
    sl_put_escaped(out, bar->note ? bar->note : "");
    fputs(there && bar->note ? ")</text>\n" : "</text>\n", out);
}

static void draw_reference(const sl_bars *bars, const sl_axis *axis, double left, FILE *out) {
    double x = left + PLOT * sl_axis_place(axis, bars->reference);
    fprintf(out,
            "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#000\" stroke-dasharray=\"3 3\"/><text x=\"%.1f\" "
            "y=\"%.1f\" text-anchor=\"middle\">",
            x, TOP - 2, TOP + ROW * bars->count, x, TOP - 7);
    sl_put_escaped(out, bars->reference_name);
    fputs("</text>\n", out);
}

sl_status sl_draw_bars(const sl_bars *bars, FILE *out) {
    sl_axis axis = axis_of(bars);
    double left = longest_name(bars) + 20, width = left + PLOT + longest_note(bars),
           height = TOP + ROW * bars->count + BOTTOM;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
            "height=\"%.0f\" font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
            "<text x=\"12\" y=\"22\" font-size=\"14\" font-weight=\"bold\">",
            width, height, width, height);
    sl_put_escaped(out, bars->title);
    fputs("</text>\n", out);
    draw_axis(bars, &axis, left, out);
    for (int i = 0; i < bars->count; i++)
        draw_bar(&bars->bar[i], &axis, left, TOP + ROW * i, out);
    if (isfinite(bars->reference))
        draw_reference(bars, &axis, left, out);
    fputs("</svg>\n", out);
    return fflush(out) != 0 || ferror(out) ? sl_error_errno(SL_ESYS, "the chart cannot be written") : SL_OK;
}
