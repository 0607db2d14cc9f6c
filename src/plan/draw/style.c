#include "plan/draw/style.h"
#include "plan/draw/escape.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    double px;
} units[] = {{"px", 1}, {"mm", 96 / 25.4}, {"cm", 960 / 25.4}, {"in", 96}, {"pt", SL_PX_OF_PT}};

double sl_style_unit(const char *unit) {
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(units[i].name, unit) == 0)
            return units[i].px;
    return 0;
}

/* px of a unit of the layout. */
static double scale_of(const sl_draw_style *style, double font) {
    return style && style->font > 0 ? style->font / font : 1;
}

double sl_style_width(const sl_draw_style *style, double own, double font) {
    double px = style && style->width > 0 ? style->width : own;
    return px / scale_of(style, font);
}

/* The requested size, to the thousandth; whole px. */
static void put_size(const char *name, double px, const char *unit, FILE *out) {
    if (strcmp(unit, "px") == 0)
        fprintf(out, " %s=\"%.0f\"", name, px);
    else
        fprintf(out, " %s=\"%.6g%s\"", name, px / sl_style_unit(unit), unit);
}

void sl_style_begin(const sl_draw_style *style, double width, double height, double font, FILE *out) {
    const char *unit = style && style->width > 0 && style->unit ? style->unit : "px";
    const double scale = scale_of(style, font);
    if (style && style->part) {
        style->part->width = width;
        style->part->height = rint(height); /* as it would be written */
        return;
    }
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.*f %.0f\"",
            width == (double)(int)width ? 0 : 3, width, height);
    put_size("width", width * scale, unit, out);
    put_size("height", height * scale, unit, out);
    fprintf(out,
            " font-family=\"sans-serif\" font-size=\"%.0f\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            font);
}

void sl_style_end(const sl_draw_style *style, FILE *out) {
    if (!style || !style->part)
        fputs("</svg>\n", out);
}

/* How letters of one kind are laid out. */
typedef struct lettering {
    double letter, line;    /* width, about; distance of lines */
    const char *attributes; /* of the element text */
} lettering;

static const lettering title_letters = {8.7, 17.0, "font-size=\"14\" font-weight=\"bold\""},
                       plain_letters = {6.0, 15.0, "fill=\"#444\""};

#define MAX_LINE 1000

/* The end of the line that begins at `from`: after a word, or within one that is longer than a line. */
static size_t line_end(const char *text, size_t from, size_t most) {
    size_t end = from + most, length = strlen(text);
    if (end >= length)
        return length;
    while (end > from && text[end] != ' ')
        end--;
    if (end > from)
        return end;
    for (end = from + most; end > from + 1 && ((unsigned char)text[end] & 0xc0) == 0x80;)
        end--; /* do not cut a UTF-8 character */
    return end;
}

static int put_lines(const char *text, const lettering *l, double x, double y, double room, FILE *out) {
    size_t most = room > 8 * l->letter ? (size_t)(room / l->letter) : 8;
    int lines = 0;
    most = most > MAX_LINE ? MAX_LINE : most;
    for (size_t at = 0; text && text[at]; lines++) {
        char line[MAX_LINE + 1];
        size_t end = line_end(text, at, most);
        snprintf(line, sizeof line, "%.*s", (int)(end - at), text + at);
        if (out) {
            fprintf(out, "<text x=\"%.0f\" y=\"%.1f\" %s>", x, y + l->line * lines, l->attributes);
            sl_put_escaped(out, line);
            fputs("</text>\n", out);
        }
        at = end + strspn(text + end, " ");
    }
    return lines;
}

int sl_style_title(const char *title, double x, double y, double room, FILE *out) {
    return put_lines(title, &title_letters, x, y, room, out);
}

int sl_style_lines(const char *text, double x, double y, double room, FILE *out) {
    return put_lines(text, &plain_letters, x, y, room, out);
}
