#include "plan/draw/page_fill.h"

#include <string.h>

static const sl_page_mark *mark_at(const char *text, const sl_page_mark *marks, int count) {
    for (int i = 0; i < count; i++)
        if (strncmp(text, marks[i].name, strlen(marks[i].name)) == 0)
            return &marks[i];
    return NULL;
}

sl_status sl_page_fill(const char *page, const sl_page_mark *marks, int count, const void *context,
                       FILE *out) {
    for (const char *at = page; (at = strchr(at, '@'));) {
        const sl_page_mark *mark = mark_at(at, marks, count);
        if (!mark) {
            at++;
            continue;
        }
        fwrite(page, 1, (size_t)(at - page), out);
        SL_TRY(mark->put(context, out));
        page = at += strlen(mark->name);
    }
    fputs(page, out);
    return SL_OK;
}
