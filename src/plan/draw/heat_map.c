#include "plan/draw/heat_map.h"
#include "plan/draw/escape.h"

#include <math.h>
#include <string.h>

#define CELL_WIDTH 44.0
#define CELL_HEIGHT 24.0
#define LEFT 110.0
#define TOP 74.0
#define FONT 12.0

static double share_of(const sl_heat_map *m, double value) {
    double share = m->most > m->least ? (value - m->least) / (m->most - m->least) : 0;
    return isfinite(share) ? fmin(1, fmax(0, share)) : 0;
}

static int number_of(const sl_heat_map *m, int column) {
    return m->column_number ? m->column_number[column] : column;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void format_value(const sl_heat_map *m, double value, char text[32]) {
    snprintf(text, 32, m->digits, value);
}
#pragma GCC diagnostic pop

static void draw_cell(const sl_heat_map *m, int row, int column, double width, FILE *out) {
    char text[32];
    double value = m->value[row * m->columns + column], share = share_of(m, value), x = LEFT + column * width,
           y = TOP + row * CELL_HEIGHT;
    format_value(m, value, text);
    /* from white to a dark red that is dark in gray print, too */
    fprintf(
        out,
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" fill=\"rgb(%d,%d,%d)\" stroke=\"#ccc\">"
        "<title>%s %d, %s %d: %s</title></rect>\n",
        x, y, width, CELL_HEIGHT, (int)(255 - 115 * share), (int)(255 - 235 * share),
        (int)(255 - 230 * share), m->row_name, row, m->column_name, number_of(m, column), text);
    if (width >= CELL_WIDTH)
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"%s\">%s</text>\n",
                x + width / 2, y + 16, share > 0.55 ? "#fff" : "#222", text);
}

static void draw_names(const sl_heat_map *m, double width, FILE *out) {
    int each = width >= 24 ? 1 : 8;
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", LEFT + m->columns * width / 2,
            TOP - 26);
    sl_put_escaped(out, m->column_name);
    fprintf(out, "</text>\n");
    for (int column = 0; column < m->columns; column += each)
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%d</text>\n",
                LEFT + (column + 0.5) * width, TOP - 8, number_of(m, column));
    for (int row = 0; row < m->rows; row++) {
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", LEFT - 8,
                TOP + row * CELL_HEIGHT + 16);
        if (row == 0) {
            sl_put_escaped(out, m->row_name);
            fputc(' ', out);
        }
        fprintf(out, "%d</text>\n", row);
    }
}

sl_status sl_draw_heat_map(const sl_heat_map *m, FILE *out) {
    double width = m->columns <= 40 ? CELL_WIDTH : fmax(3, 40 * CELL_WIDTH / m->columns),
           whole = fmax(LEFT + m->columns * width + 20, 420), room = whole - 32;
    int lines = sl_style_title(m->title, 16, 22, room, NULL);
    double shift = lines > 1 ? 17.0 * (lines - 1) : 0;
    sl_style_begin(NULL, whole, TOP + shift + m->rows * CELL_HEIGHT + 20, FONT, out);
    sl_style_title(m->title, 16, 22, room, out);
    fprintf(out, "<g transform=\"translate(0 %.1f)\">\n", shift);
    draw_names(m, width, out);
    for (int row = 0; row < m->rows; row++)
        for (int column = 0; column < m->columns; column++)
            draw_cell(m, row, column, width, out);
    fprintf(out, "</g>\n");
    sl_style_end(NULL, out);
    return ferror(out) ? sl_error(SL_ESYS, "the heat map cannot be written") : SL_OK;
}

void sl_print_heat_map(const sl_heat_map *m, int width, FILE *out) {
    char text[32];
    int name = (int)strlen(m->row_name) + 5, each = 6, fits = (width - name) / each;
    fits = fits < 4 ? 4 : fits;
    for (int first = 0; first < m->columns; first += fits) {
        int end = first + fits < m->columns ? first + fits : m->columns;
        fprintf(out, "%-*s", name, m->column_name);
        for (int column = first; column < end; column++)
            fprintf(out, "%*d", each, number_of(m, column));
        fputc('\n', out);
        for (int row = 0; row < m->rows; row++) {
            fprintf(out, "%s %-*d", m->row_name, 4, row);
            for (int column = first; column < end; column++) {
                double value = m->value[row * m->columns + column];
                format_value(m, value, text);
                fprintf(out, "%*s", each, text);
            }
            fputc('\n', out);
        }
    }
}
