#include "run/journal/journal_cut.h"
#include "base/file.h"
#include "base/memory.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

static int is_before(const char *line, size_t length, int first) {
    json_t *root = json_loadb(line, length, 0, NULL), *iteration = json_object_get(root, "iteration");
    int before = json_is_integer(iteration) && json_integer_value(iteration) < first;
    json_decref(root);
    return before;
}

sl_status sl_journal_cut_metrics(const char *path, int first) {
    char *text;
    size_t size, kept = 0;
    if (access(path, F_OK) != 0)
        return SL_OK;
    SL_TRY(sl_file_read(path, &text, &size));
    for (char *line = text, *end; (end = memchr(line, '\n', size - (size_t)(line - text))) != NULL;
         line = end + 1) {
        size_t length = (size_t)(end - line);
        if (!is_before(line, length, first))
            continue;
        memmove(text + kept, line, length + 1);
        kept += length + 1;
    }
    sl_status status = kept < size ? sl_file_write(path, text, kept) : SL_OK;
    sl_free(text);
    return status;
}

sl_status sl_journal_cut_events(const char *path) {
    char *text;
    size_t size;
    if (access(path, F_OK) != 0)
        return SL_OK;
    SL_TRY(sl_file_read(path, &text, &size));
    size_t kept = size;
    while (kept > 0 && text[kept - 1] != '\n')
        kept--;
    sl_status status = kept < size ? sl_file_write(path, text, kept) : SL_OK;
    sl_free(text);
    return status;
}
