/* The fills that distinguish kinds of ops, on a screen and in gray print. */
#include "plan/draw/svg_inside.h"

typedef enum texture { PLAIN, RISING, CROSSED, DOTTED, FALLING, STRIPED } texture;

/* Colors after Okabe and Ito: distinguishable by color-blind readers, and by brightness in gray print. In
 * gray, a background and the strokes on it. */
static const struct {
    const char *text, *name;
    int colour[3];
    texture texture;
    int ground, ink; /* of 255 */
} style[SL_SPAN_KINDS] = {{"#000", "F forward", {0x8c, 0xcb, 0xf0}, PLAIN, 0xff, 0},
                          {"#000", "I backward for the input", {0xe0, 0x8e, 0x00}, RISING, 0xe8, 0x60},
                          {"#fff", "W backward for the weights", {0x00, 0x80, 0x5d}, PLAIN, 0x78, 0},
                          {"#000", "B full backward", {0xcc, 0x79, 0xa7}, PLAIN, 0xbd, 0},
                          {"#000", "gather", {0xa8, 0xa8, 0xa8}, DOTTED, 0xf4, 0x50},
                          {"#fff", "reduction", {0x60, 0x60, 0x60}, PLAIN, 0x30, 0},
                          {"#000", "to host memory", {0xd5, 0x5e, 0x00}, FALLING, 0xe8, 0x60},
                          {"#000", "back from it", {0x00, 0x72, 0xb2}, STRIPED, 0xe8, 0x60}};

/* The strokes on the background, in a square of 6. */
static const char *const strokes[] = {"",         "M-1 7L7 -1M-1 1L1 -1M5 7L7 5", "M-1 7L7 -1M-1 -1L7 7",
                                      "M1 3h1.4", "M-1 -1L7 7M5 -1L7 1M-1 5L1 7", "M3 0V6"};

const char *sl_svg_kind_name(int kind) {
    return style[kind].name;
}

static int is_grey(const sl_draw_style *s) {
    return s && s->grey;
}

/* Halfway to white for the last stage of a rank with several. */
static int paler(int shade, int chunk, int chunks) {
    return shade + (chunks > 1 ? (255 - shade) * 58 * chunk / (100 * (chunks - 1)) : 0);
}

sl_svg_fill sl_svg_fill_of(const sl_draw_style *s, int kind, int chunk, int chunks) {
    sl_svg_fill f = {.letter = chunk > 0 ? "#000" : style[kind].text, .more = ""};
    int c[3];
    for (int i = 0; i < 3; i++)
        c[i] = paler(is_grey(s) ? style[kind].ground : style[kind].colour[i], chunk, chunks);
    if (is_grey(s) && (style[kind].texture != PLAIN || (kind == SL_F && chunk > 0))) {
        snprintf(f.text, sizeof f.text, "url(#grey-%d-%d)", kind & 15, chunk & 0xffff);
        f.letter = "#000";
        f.more = " stroke=\"#fff\" stroke-width=\"2.4\" paint-order=\"stroke\"";
    } else {
        snprintf(f.text, sizeof f.text, "#%02x%02x%02x", c[0] & 255, c[1] & 255, c[2] & 255);
    }
    return f;
}

const char *sl_svg_edge(const sl_draw_style *s) {
    return is_grey(s) ? "#000" : "#fff";
}

/* F is white in gray and cannot be paler: a later stage's F has a band of dots. */
static void define(int kind, int chunk, int chunks, FILE *out) {
    const texture t = style[kind].texture == PLAIN ? DOTTED : style[kind].texture;
    int ground = paler(style[kind].ground, chunk, chunks), ink = style[kind].ink ? style[kind].ink : 0x60;
    ink = paler(ink, chunk, chunks);
    fprintf(out,
            "<pattern id=\"grey-%d-%d\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
            "<rect width=\"6\" height=\"6\" fill=\"#%02x%02x%02x\"/><path d=\"%s\" stroke=\"#%02x%02x%02x\" "
            "stroke-width=\"1.3\"/></pattern>\n",
            kind, chunk, ground & 255, ground & 255, ground & 255, strokes[t], ink & 255, ink & 255,
            ink & 255);
}

void sl_svg_define(const sl_svg_content *c, FILE *out) {
    if (!is_grey(c->style))
        return;
    const int chunks = c->chunks > 1 ? c->chunks : 2; /* the legend shows a second one */
    fputs("<defs>\n", out);
    for (int kind = 0; kind < SL_SPAN_KINDS; kind++)
        for (int chunk = 0; chunk < chunks; chunk++)
            if (style[kind].texture != PLAIN || (kind == SL_F && chunk > 0))
                define(kind, chunk, chunks, out);
    fputs("</defs>\n", out);
}
