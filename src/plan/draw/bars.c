/* Bars with their names on the left and their values on the right. */
#include "plan/draw/axis.h"
#include "plan/draw/chart.h"
#include "plan/draw/escape.h"

#include <math.h>
#include <string.h>

#define TOP 54.0
#define ROW 26.0
#define BAR 17.0
#define OWN_PLOT 560.0
#define MIN_PLOT 80.0
#define FONT 12.0
#define LETTER 7.2
#define BOTTOM 52.0

/* Shared by all bars. */
typedef struct bars_frame {
    const sl_bars *bars;
    sl_chart_axis axis;
    double left, top, plot;
} bars_frame;

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

static sl_chart_axis axis_of(const sl_bars *bars, double plot) {
    double most = isfinite(bars->reference) ? bars->reference : 0;
    for (int i = 0; i < bars->count; i++)
        most = isfinite(bars->bar[i].value) && bars->bar[i].value > most ? bars->bar[i].value : most;
    const int steps = (int)(plot / LETTER / 6);
    return sl_axis_around(0, most > 0 ? most : 1, steps > 10 ? 10 : steps > 2 ? steps : 2);
}

static void draw_axis(const bars_frame *f, FILE *out) {
    const sl_chart_axis *axis = &f->axis;
    const double left = f->left;
    char text[64];
    double bottom = f->top + ROW * f->bars->count;
    for (int i = 0; i <= axis->steps; i++) {
        double x = left + f->plot * i / axis->steps;
        sl_axis_label(axis, i, text, sizeof text);
        fprintf(out,
                "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%.1f\" "
                "text-anchor=\"middle\">%s</text>\n",
                x, f->top, bottom, x, bottom + 17, text);
    }
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", left + f->plot / 2, bottom + 40);
    sl_put_escaped(out, f->bars->x_label);
    fputs("</text>\n", out);
}

static void draw_bar(const bars_frame *f, const sl_bar *bar, double top, FILE *out) {
    const sl_draw_style *style = f->bars->style;
    const int labels = !(style && style->no_labels);
    const double left = f->left;
    int there = isfinite(bar->value);
    double width = there ? f->plot * sl_axis_share(&f->axis, bar->value) : 0, middle = top + ROW / 2 + 4;
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", left - 8, middle);
    sl_put_escaped(out, bar->name);
    fputs("</text>", out);
    if (there)
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\"/>", left,
                top + (ROW - BAR) / 2, width, BAR, style && style->grey ? "#8c8c8c" : "#4ba3d9");
    if (there && !labels) {
        fputc('\n', out);
        return;
    }
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\"%s>", left + width + 6, middle,
            there ? "" : " fill=\"#666\" font-style=\"italic\"");
    if (there)
        fprintf(out, "%.9g%s", bar->value, bar->note ? " (" : "");
    sl_put_escaped(out, bar->note ? bar->note : "");
    fputs(there && bar->note ? ")</text>\n" : "</text>\n", out);
}

static void draw_reference(const bars_frame *f, FILE *out) {
    const sl_bars *bars = f->bars;
    double x = f->left + f->plot * sl_axis_share(&f->axis, bars->reference);
    fprintf(out,
            "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#000\" stroke-dasharray=\"3 3\"/><text x=\"%.1f\" "
            "y=\"%.1f\" text-anchor=\"middle\">",
            x, f->top - 2, f->top + ROW * bars->count, x, f->top - 7);
    sl_put_escaped(out, bars->reference_name);
    fputs("</text>\n", out);
}

sl_status sl_draw_bars(const sl_bars *bars, FILE *out) {
    const int labels = !(bars->style && bars->style->no_labels);
    bars_frame f = {.bars = bars, .left = longest_name(bars) + 20};
    double notes = labels ? longest_note(bars) : 20,
           width = sl_style_width(bars->style, f.left + OWN_PLOT + notes, FONT);
    const int lines = sl_style_title(bars->title, 12, 22, width - 12, NULL);
    f.top = TOP + (lines > 1 ? 17 * (lines - 1) : 0);
    const double height = f.top + ROW * bars->count + BOTTOM;
    f.plot = width - f.left - notes;
    if (f.plot < MIN_PLOT)
        return sl_error(SL_EINVAL,
                        "the picture is too narrow for its text: make it wider, or the text smaller");
    f.axis = axis_of(bars, f.plot);
    sl_style_begin(bars->style, width, height, FONT, out);
    sl_style_title(bars->title, 12, 22, width - 12, out);
    draw_axis(&f, out);
    for (int i = 0; i < bars->count; i++)
        draw_bar(&f, &bars->bar[i], f.top + ROW * i, out);
    if (isfinite(bars->reference))
        draw_reference(&f, out);
    sl_style_end(bars->style, out);
    return fflush(out) != 0 || ferror(out) ? sl_error_errno(SL_ESYS, "the chart cannot be written") : SL_OK;
}
