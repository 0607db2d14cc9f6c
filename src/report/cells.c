#include "report/cells.h"
#include "plan/draw/escape.h"

#include <math.h>

void sl_cell_text(FILE *out, const char *text) {
    fputs("<td>", out);
    sl_put_escaped(out, text);
    fputs("</td>", out);
}

void sl_cell_number(FILE *out, const char *format, double value) {
    fputs("<td class=\"n\">", out);
    if (isfinite(value))
        fprintf(out, format, value); /* NOLINT: formats are constants of the callers */
    else
        fputs("&ndash;", out);
    fputs("</td>", out);
}

void sl_cell_figure(FILE *out, const char *name, const char *value) {
    fprintf(out, "<div><dt>%s</dt><dd>", name);
    sl_put_escaped(out, value);
    fputs("</dd></div>\n", out);
}

void sl_cell_row(FILE *out, const char *prefix, const char *key, const char *value) {
    fputs("<tr><th scope=\"row\">", out);
    sl_put_escaped(out, prefix);
    sl_put_escaped(out, key);
    fputs("</th>", out);
    sl_cell_text(out, value);
    fputs("</tr>\n", out);
}
