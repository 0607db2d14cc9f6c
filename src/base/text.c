#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char more[] = "...";

/* The end of the first `room` bytes of `text` without half a word, or without half a character if a word is
 * longer than half of them. */
static size_t cut(const char *text, size_t room) {
    size_t at = room;
    while (at > room / 2 && text[at] != ' ')
        at--;
    if (text[at] == ' ') {
        while (at > 0 && strchr(" ,;:(", text[at - 1]))
            at--;
        return at;
    }
    for (at = room; at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80;)
        at--;
    return at;
}

size_t sl_text_fit(char *to, size_t size, const char *text) {
    size_t length = strlen(text);
    if (length < size) {
        memmove(to, text, length + 1);
        return length;
    }
    length = cut(text, size - sizeof more);
    memmove(to, text, length);
    memcpy(to + length, more, sizeof more);
    return length + sizeof more - 1;
}

size_t sl_text_format(char *to, size_t size, const char *format, ...) {
    char whole[4096];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(whole, sizeof whole, format, arguments);
    va_end(arguments);
    if (length < 0)
        whole[0] = 0;
    return sl_text_fit(to, size, whole);
}

int sl_text_link(char *to, size_t size, int from, int other, int both) {
    return snprintf(to, size, both ? "link %d-%d" : "link %d -> %d", from, other);
}

void sl_text_add(char *to, size_t size, const char *between, const char *piece) {
    size_t used = strlen(to), end = sizeof more - 1;
    if (*piece && (used < end || strcmp(to + used - end, more) != 0))
        sl_text_format(to, size, "%s%s%s", to, used ? between : "", piece);
}
