#include "base/pieces.h"

#include <stdio.h>
#include <string.h>

/* Drops the highest ranks until the rest fits; `gap` becomes 1 if 2 is too wide. */
static void choose(sl_piece *p, int count, int width, int *gap) {
    for (;;) {
        int length = 0, shown = 0, last = -1;
        for (int i = 0; i < count; i++) {
            if (p[i].rank < 0)
                continue;
            length += (int)strlen(p[i].text) + (shown++ ? *gap : 0);
            last = last < 0 || p[i].rank > p[last].rank ? i : last;
        }
        if (length <= width || shown <= 1)
            return;
        if (*gap == 1)
            p[last].rank = -1;
        *gap = 1;
    }
}

int sl_pieces_line(sl_piece *p, int count, int width, int colour, char *text, size_t size) {
    static const char *const start[] = {"", "\033[1m", "\033[32m", "\033[33m"};
    int length = 0, between = 2;
    size_t used = 0;
    choose(p, count, width, &between);
    text[0] = 0;
    for (int i = 0; i < count; i++) {
        if (p[i].rank < 0)
            continue;
        const char *gap = length == 0 ? "" : between == 2 ? "  " : " ";
        int room = width - length - (int)strlen(gap), own = (int)strlen(p[i].text);
        own = own < room ? own : room > 0 ? room : 0;
        int coloured = colour && p[i].tone != SL_TONE_PLAIN;
        int put = snprintf(text + used, size - used, "%s%s%.*s%s", gap, coloured ? start[p[i].tone] : "", own,
                           p[i].text, coloured ? "\033[0m" : "");
        used += put > 0 && (size_t)put < size - used ? (size_t)put : 0;
        length += (int)strlen(gap) + own;
    }
    return length;
}
