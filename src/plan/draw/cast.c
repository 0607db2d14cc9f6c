#include "plan/draw/cast.h"
#include "plan/draw/escape.h"

#include <stdlib.h>
#include <string.h>

#define LETTER 7.8 /* px */
#define LINE 18.0
#define EDGE 12.0
enum { MAX_COLUMNS = 500, PLAIN = 0 };

/* Backgrounds of a terminal (40 to 47), pale enough for dark letters. */
static const char *const fills[8] = {"#cccccc", "#f4b8b0", "#a9dcae", "#f6d186",
                                     "#9cc7f5", "#d4bbf2", "#9fdbe0", "#d0d0d0"};

/* One line: letters, and the background of each. */
typedef struct cast_line {
    char text[MAX_COLUMNS + 1];
    char fill[MAX_COLUMNS]; /* 0: none, else 40 to 47 */
    int length;
} cast_line;

/* Colors that begin in a line end in it. Returns the next line. */
static const char *read_line(const char *at, int columns, cast_line *l) {
    char fill = PLAIN;
    l->length = 0;
    for (; *at && *at != '\n'; at++) {
        if (*at == '\033') { /* \033[97;44m, \033[0m */
            fill = PLAIN;
            for (at++; *at && *at != '\n' && *at != 'm'; at++)
                if ((at[-1] == '[' || at[-1] == ';') && at[0] == '4' && at[1] >= '0' && at[1] <= '7')
                    fill = (char)(40 + at[1] - '0');
            if (*at != 'm')
                break;
        } else if (l->length < columns) {
            l->text[l->length] = *at;
            l->fill[l->length++] = fill;
        }
    }
    l->text[l->length] = 0;
    return *at ? at + 1 : at;
}

/* The stretches of one background, as strokes in units of letters and lines. */
static void put_strokes(const cast_line *l, int number, char fill, FILE *out) {
    int any = 0;
    for (int i = 0, end; i < l->length; i = end) {
        for (end = i + 1; end < l->length && l->fill[end] == l->fill[i];)
            end++;
        if (l->fill[i] != fill)
            continue;
        if (!any++)
            fprintf(out, "<path class=\"f%d\" d=\"", fill - 40);
        fprintf(out, "M%d %d.5h%d", i, number, end - i);
    }
    fputs(any ? "\"/>" : "", out);
}

/* The letters with a background, or those without one; each stretch is as wide as its columns. */
static void put_letters(const cast_line *l, int number, int is_filled, FILE *out) {
    for (int i = 0, end; i < l->length; i = end) {
        char text[MAX_COLUMNS + 1];
        int last;
        for (end = i + 1; end < l->length && (l->fill[end] != PLAIN) == (l->fill[i] != PLAIN);)
            end++;
        for (last = end; last > i && l->text[last - 1] == ' ';)
            last--;
        while (i < last && l->text[i] == ' ')
            i++;
        if (i >= last || (l->fill[i] != PLAIN) != is_filled)
            continue;
        snprintf(text, sizeof text, "%.*s", last - i, l->text + i);
        fprintf(out, "<text%s x=\"%.1f\" y=\"%.0f\" textLength=\"%.1f\">", is_filled ? " class=\"k\"" : "",
                i * LETTER, (number + 1) * LINE - 5, (last - i) * LETTER);
        sl_put_escaped(out, text);
        fputs("</text>", out);
    }
}

static void put_screen(const char *text, int columns, FILE *out) {
    cast_line l;
    fprintf(out, "<g transform=\"scale(%.1f %.0f)\">", LETTER, LINE);
    const char *at = text;
    for (int number = 0; *at; number++) {
        at = read_line(at, columns, &l);
        for (char fill = 40; fill < 48; fill++)
            put_strokes(&l, number, fill, out);
    }
    fputs("</g>", out);
    at = text;
    for (int number = 0; *at; number++) {
        at = read_line(at, columns, &l);
        put_letters(&l, number, 0, out);
        put_letters(&l, number, 1, out);
    }
}

static int lines_of(const char *text) {
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* When each screen is seen, in percent of the whole. */
static void put_times(const sl_cast_screen *screen, int count, FILE *out) {
    sl_time all = 0, before = 0;
    for (int i = 0; i < count; i++)
        all += screen[i].shown;
    for (int i = 0; i < count; before += screen[i++].shown) {
        const double from = 100 * (double)before / (double)all,
                     to = from + 100 * (double)screen[i].shown / (double)all;
        fprintf(out, "@keyframes s%d{", i);
        if (i > 0)
            fprintf(out, "0%%{visibility:hidden}");
        fprintf(out, "%.2f%%{visibility:visible}", from);
        if (i + 1 < count)
            fprintf(out, "%.2f%%{visibility:hidden}", to);
        fprintf(out, "}#s%d{animation:s%d %.2fs step-end infinite}\n", i, i, (double)all / SL_SECOND);
    }
}

sl_status sl_draw_cast(const sl_cast_screen *screen, int count, int columns, FILE *out) {
    int lines = 1;
    columns = columns > MAX_COLUMNS ? MAX_COLUMNS : columns;
    for (int i = 0; i < count; i++)
        lines = lines_of(screen[i].text) > lines ? lines_of(screen[i].text) : lines;
    const double width = 2 * EDGE + columns * LETTER, height = 2 * EDGE + lines * LINE;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" viewBox=\"0 0 %.0f %.0f\" "
            "width=\"%.0f\" height=\"%.0f\">\n<style>\n"
            "text{font:13px ui-monospace,Menlo,Consolas,\"DejaVu Sans "
            "Mono\",monospace;white-space:pre;fill:#1f2328}\n"
            "path{stroke-width:.86}\n.b{fill:#fff;stroke:#d0d7de}\n",
            width, height, width, height);
    for (int i = 0; i < 8; i++)
        fprintf(out, ".f%d{stroke:%s}", i, fills[i]);
    fputs("\n@media(prefers-color-scheme:dark){text{fill:#e6edf3}.b{fill:#0d1117;stroke:#3d444d}}\ntext.k{"
          "fill:#111}\n",
          out);
    if (count > 1)
        put_times(screen, count, out);
    fprintf(out,
            "@media(prefers-reduced-motion:reduce){g[id]{animation:none!important}}\n</style>\n"
            "<rect class=\"b\" x=\".5\" y=\".5\" width=\"%.0f\" height=\"%.0f\" rx=\"6\"/>\n"
            "<g transform=\"translate(%.0f %.0f)\">\n",
            width - 1, height - 1, EDGE, EDGE);
    for (int i = 0; i < count; i++) {
        fprintf(out, "<g id=\"s%d\"%s>", i, i + 1 < count ? " visibility=\"hidden\"" : "");
        put_screen(screen[i].text, columns, out);
        fputs("</g>\n", out);
    }
    fputs("</g>\n</svg>\n", out);
    return ferror(out) ? sl_error_errno(SL_ESYS, "the recording cannot be written") : SL_OK;
}
