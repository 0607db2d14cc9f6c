/* Rows below those of the ops: messages as lanes, and memory. */
#include "base/text.h"
#include "plan/draw/svg_inside.h"

#include <math.h>

#define LANE 12.0
#define LANE_GAP 5.0
#define ABOVE 8.0 /* between groups of rows */
#define MEMORY 34.0
#define MEMORY_GAP 10.0

/* ---- lanes ---- */

double sl_svg_lanes_height(const sl_lanes *lanes) {
    return lanes->lanes > 0 ? ABOVE + (LANE + LANE_GAP) * lanes->lanes : 0;
}

static double lane_top(const sl_svg_frame *f, int lane) {
    return f->lanes_top + ABOVE + (LANE + LANE_GAP) * lane;
}

static void put_ride(const sl_svg_frame *f, const sl_ride *ride, FILE *out) {
    const sl_transfer *t = &f->t->transfer[ride->transfer];
    const sl_highlight *h = f->chart->highlight;
    const double x = sl_svg_across(f, t->start), end = sl_svg_across(f, t->end),
                 arrive = sl_svg_across(f, t->arrive), y = lane_top(f, ride->lane);
    const int is_activation = t->op.kind == SL_F;
    const char *dashes = is_activation ? "" : " stroke-dasharray=\"3 2\"";
    const char *width = h && h->transfer[ride->transfer] ? "1.6" : ".6";
    if (end > x)
        fprintf(out,
                "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\" stroke=\"#000\" "
                "stroke-width=\"%s\"/>",
                x, y, end - x, LANE,
                sl_svg_fill_of(f->content->style, is_activation ? SL_F : SL_I, 0, 1).text, width);
    fprintf(out,
            "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"#fff\" fill-opacity=\"0\" "
            "stroke=\"#000\" stroke-width=\"%s\"%s><title>%s%d of stage %d, link %d -&gt; %d: %.3f to %.3f ms"
            "</title></rect>\n",
            x, y, arrive - x > 0.3 ? arrive - x : 0.3, LANE, width, dashes, sl_op_name(t->op.kind),
            t->op.microbatch, t->op.stage, t->from, t->to, sl_to_ms(t->start - f->origin),
            sl_to_ms(t->arrive - f->origin));
    char number[16];
    int length = snprintf(number, sizeof number, "%d", t->op.microbatch);
    if (arrive - x >= 7.0 * length + 3 && !(f->content->style && f->content->style->no_labels))
        fprintf(out,
                "<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"9\" stroke=\"#fff\" "
                "stroke-width=\"2\" paint-order=\"stroke\">%s</text>\n",
                x + (arrive - x) / 2, y + LANE / 2 + 3.3, number);
}

void sl_svg_draw_lanes(const sl_svg_frame *f, FILE *out) {
    char text[48];
    for (int lane = 0; lane < f->lanes->lanes; lane++) {
        const sl_transfer *t = f->lanes->lane[lane];
        const sl_transfer *before = lane > 0 ? f->lanes->lane[lane - 1] : NULL;
        const double y = lane_top(f, lane) + LANE / 2;
        sl_text_link(text, sizeof text, t->from, t->to, 0);
        if (!before || before->from != t->from || before->to != t->to)
            sl_svg_label(y + 4, text, out);
        fprintf(out, "<path d=\"M%.2f %.1fH%.2f\" stroke=\"#ccc\"/>\n", SL_SVG_LEFT, y,
                SL_SVG_LEFT + f->content->plot);
    }
    for (int i = 0; i < f->lanes->rides; i++) {
        const sl_transfer *t = &f->t->transfer[f->lanes->ride[i].transfer];
        if (sl_svg_shows(f, t->start, t->arrive))
            put_ride(f, &f->lanes->ride[i], out);
    }
}

/* ---- memory ---- */

double sl_svg_memory_height(const sl_timeline *t) {
    return ABOVE + (MEMORY + MEMORY_GAP) * t->ranks;
}

double sl_svg_most_memory(const sl_svg_memory *m, int ranks) {
    double most = 0;
    for (int i = 0; i < m->first[ranks]; i++)
        most = m->step[i].used > most ? m->step[i].used : most;
    for (int rank = 0; rank < ranks && m->always; rank++)
        most = m->always[rank] > most ? m->always[rank] : most;
    for (int rank = 0; rank < ranks && m->limit; rank++)
        if (isfinite(m->limit[rank]) && m->limit[rank] > most)
            most = m->limit[rank];
    return most;
}

/* Three or four digits: bytes with decimal prefixes, other units unchanged. */
static void put_amount(double amount, FILE *out) {
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    int unit = 0;
    for (; amount >= 1e5 || (unit > 0 && amount >= 1000 && unit < 5); unit++)
        amount /= 1000;
    fprintf(out, amount >= 1000 ? "%.0f%s" : "%.3g%s", amount, units[unit]);
}

static void draw_rank(const sl_svg_frame *f, int rank, FILE *out) {
    const sl_svg_memory *m = f->chart->memory;
    const double most = f->content->max_memory > 0 ? f->content->max_memory : 1;
    const double bottom = f->memory_top + ABOVE + (MEMORY + MEMORY_GAP) * rank + MEMORY;
    const double always = m->always ? m->always[rank] : 0;
    double peak = always;
    char text[32];
    snprintf(text, sizeof text, "rank %d", rank);
    sl_svg_label(bottom - MEMORY / 2 + 4, text, out);
    fprintf(out, "<path d=\"M%.2f %.1fH%.2f\" stroke=\"#888\"/>\n", SL_SVG_LEFT, bottom,
            SL_SVG_LEFT + f->content->plot);
    fprintf(out, "<path class=\"memory\" d=\"M%.2f %.1f", sl_svg_across(f, f->from), bottom);
    if (always > 0)
        fprintf(out, "V%.2f", bottom - MEMORY * always / most);
    for (int i = m->first[rank]; i < m->first[rank + 1]; i++) {
        const sl_memory_step *s = &m->step[i];
        const double x = sl_svg_across(f, s->time);
        fprintf(out, "H%.2fV%.2f", x, bottom - MEMORY * (s->used > 0 ? s->used : 0) / most);
        peak = s->used > peak ? s->used : peak;
    }
    const double end = sl_svg_across(f, f->to);
    fprintf(out, "H%.2fV%.1fz\" fill=\"#c4c4c4\" stroke=\"#000\" stroke-width=\".7\"/>\n", end, bottom);
    if (m->limit && isfinite(m->limit[rank]))
        fprintf(
            out,
            "<path d=\"M%.2f %.2fH%.2f\" stroke=\"#444\" stroke-width=\"1.6\" stroke-dasharray=\"6 3\"/>\n",
            SL_SVG_LEFT, bottom - MEMORY * m->limit[rank] / most, SL_SVG_LEFT + f->content->plot);
    if (f->content->style && f->content->style->no_labels)
        return;
    fprintf(out, "<text x=\"%.2f\" y=\"%.1f\">", end + 3, bottom - MEMORY * peak / most + 8);
    put_amount(peak, out);
    fputs("</text>\n", out);
}

void sl_svg_draw_memory(const sl_svg_frame *f, FILE *out) {
    for (int rank = 0; rank < f->t->ranks; rank++)
        draw_rank(f, rank, out);
}
