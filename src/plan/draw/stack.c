#include "plan/draw/stack.h"

#include <string.h>

#define FONT 12.0 /* of charts and bars */

typedef struct one {
    double width, height;
    const char *inside; /* after the opening element and the white background */
    size_t length;
} one;

static int look_at(const char *text, one *o) {
    const char *size = strstr(text, "viewBox=\"0 0 "), *line = strchr(text, '\n');
    const char *inside = line ? strchr(line + 1, '\n') : NULL,
               *end = inside ? strstr(inside, "</svg>") : NULL;
    if (!size || !end || sscanf(size, "viewBox=\"0 0 %lf %lf\"", &o->width, &o->height) != 2)
        return 0;
    o->inside = inside + 1;
    o->length = (size_t)(end - o->inside);
    return 1;
}

sl_status sl_draw_stack(char *const *text, int count, const sl_draw_style *style, FILE *out) {
    double width = 0, height = 0;
    one o;
    if (count == 1)
        fputs(text[0], out);
    for (int i = 0; i < count && count > 1; i++) {
        if (!look_at(text[i], &o))
            return sl_error(SL_EINVAL, "a chart has another form than the picture of charts expects");
        width = o.width > width ? o.width : width;
        height += o.height;
    }
    if (count > 1)
        sl_style_begin(style, width, height, FONT, out);
    height = 0;
    for (int i = 0; i < count && count > 1; i++) {
        look_at(text[i], &o);
        fprintf(out, "<g transform=\"translate(0 %.0f)\">\n", height);
        fwrite(o.inside, 1, o.length, out);
        fputs("</g>\n", out);
        height += o.height;
    }
    if (count > 1)
        fputs("</svg>\n", out);
    return ferror(out) ? sl_error_errno(SL_ESYS, "the picture cannot be written") : SL_OK;
}
