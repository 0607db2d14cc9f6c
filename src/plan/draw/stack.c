#include "plan/draw/stack.h"

#define FONT 12.0 /* of charts and bars */

sl_status sl_draw_stack(const sl_svg_part *part, int count, const sl_draw_style *style, FILE *out) {
    double width = 0, height = 0;
    for (int i = 0; i < count; i++) {
        width = part[i].width > width ? part[i].width : width;
        height += part[i].height;
    }
    sl_style_begin(style, width, height, FONT, out);
    height = 0;
    for (int i = 0; i < count; i++) {
        fprintf(out, "<g transform=\"translate(0 %.0f)\">\n%s</g>\n", height, part[i].text);
        height += part[i].height;
    }
    sl_style_end(style, out);
    return ferror(out) ? sl_error_errno(SL_ESYS, "the picture cannot be written") : SL_OK;
}
