#include "plan/draw/escape.h"

#include <string.h>

/* Bytes of the UTF-8 character at `c`, 0 if it is invalid: overlong, a surrogate, beyond U+10FFFF, cut off,
 * or U+FFFE and U+FFFF, which XML excludes. */
static int length_of(const unsigned char *c) {
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    int length = c[0] < 0x80 ? 1 : c[0] >> 5 == 6 ? 2 : c[0] >> 4 == 14 ? 3 : c[0] >> 3 == 30 ? 4 : 0;
    if (length < 2)
        return length;
    unsigned code = c[0] & (0xffu >> (length + 1));
    for (int i = 1; i < length; i++) {
        if (c[i] >> 6 != 2) /* the 0 at the end of the text, too */
            return 0;
        code = code << 6 | (c[i] & 0x3fu);
    }
    int excluded = code < least[length] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff ||
                   code == 0xfffe || code == 0xffff;
    return excluded ? 0 : length;
}

void sl_put_escaped(FILE *out, const char *text) {
    for (const unsigned char *c = (const unsigned char *)text; *c;) {
        const char *named = *c == '&'   ? "&amp;"
                            : *c == '<' ? "&lt;"
                            : *c == '>' ? "&gt;"
                            : *c == '"' ? "&quot;"
                                        : NULL;
        int length = length_of(c);
        if (named)
            fputs(named, out);
        else if (length == 0)
            fputs("\xef\xbf\xbd", out);
        else if (*c >= 32 && *c != 127)
            fwrite(c, 1, (size_t)length, out);
        c += length ? length : 1;
    }
}

void sl_put_json(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c;) {
        int length = length_of(c);
        if (length == 0)
            fputs("\\ufffd", out);
        else if (*c < 32 || *c == 127 || strchr("<>&\"\\", *c))
            fprintf(out, "\\u%04x", *c);
        else
            fwrite(c, 1, (size_t)length, out);
        c += length ? length : 1;
    }
    fputc('"', out);
}
