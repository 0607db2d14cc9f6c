#include "adapt/campaign/campaign_cells.h"
#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sl_status sl_cells_load(const char *file, const char *key, const char *name, size_t most, char path[PATH_MAX],
                        char **text) {
    const char *slash = name[0] != '/' ? strrchr(file, '/') : NULL;
    size_t size;
    *text = NULL;
    if (snprintf(path, PATH_MAX, "%.*s%s", slash ? (int)(slash - file + 1) : 0, file, name) >= PATH_MAX)
        return sl_error(SL_EINVAL, "%s: the path of '%s' is too long", file, key);
    SL_TRY(sl_file_read_max(path, most, text, &size));
    if (strlen(*text) == size)
        return SL_OK;
    sl_free(*text);
    *text = NULL;
    return sl_error(SL_EINVAL, "%s: holds a zero byte", path);
}

char *sl_cells_trim(char *text) {
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length && strchr(" \t\r", text[length - 1]))
        text[--length] = 0;
    return text;
}

/* "a, b and c" */
static void list_names(const sl_csv_cells *l, char *list, size_t size) {
    size_t used = 0;
    list[0] = 0;
    for (int i = 0; i < l->columns && used < size; i++) {
        const char *between = i == 0 ? "" : i == l->columns - 1 ? " and " : ", ";
        used += (size_t)snprintf(list + used, size - used, "%s%s", between, l->names[i]);
    }
}

static sl_status read_header(sl_csv_cells *l, char *text) {
    int seen[SL_CELLS] = {0};
    char known[512];
    for (l->width = 0; text; l->width++) {
        char *name = strsep(&text, ",");
        int c = 0;
        if (l->width == SL_CELLS)
            return sl_error(SL_EINVAL, "%s:%d: has more than %d columns", l->file, l->number, SL_CELLS);
        name = sl_cells_trim(name);
        while (c < l->columns && strcmp(l->names[c], name) != 0)
            c++;
        if (c == l->columns || seen[c]++) {
            list_names(l, known, sizeof known);
            return sl_error(SL_EINVAL, "%s:%d: column '%.60s' is %s; there are %s", l->file, l->number, name,
                            c == l->columns ? "unknown" : "there twice", known);
        }
        l->order[l->width] = c;
        l->cell[c] = name;
    }
    return SL_OK;
}

static sl_status split(sl_csv_cells *l, char *text) {
    for (int i = 0; i < l->width; i++) {
        if (!text)
            return sl_error(SL_EINVAL, "%s:%d: has %d cells where the header has %d", l->file, l->number, i,
                            l->width);
        l->cell[l->order[i]] = sl_cells_trim(strsep(&text, ","));
    }
    if (text)
        return sl_error(SL_EINVAL, "%s:%d: has more cells than the header's %d", l->file, l->number,
                        l->width);
    return SL_OK;
}

sl_status sl_cells_next(sl_csv_cells *l, char **text, int *end) {
    if (l->number == 0 && strncmp(*text, "\xef\xbb\xbf", 3) == 0)
        *text += 3;
    *end = 0;
    while (*text && **text) {
        char *row = sl_cells_trim(strsep(text, "\n"));
        l->number++;
        if (*row && *row != '#')
            return l->width ? split(l, row) : read_header(l, row);
    }
    *end = 1;
    return l->width ? SL_OK
                    : sl_error(SL_EINVAL, "%s: is empty; its first line must name the columns", l->file);
}

int sl_cells_has_column(const sl_csv_cells *l, int column) {
    return l->cell[column] != NULL;
}

int sl_cells_has(const sl_csv_cells *l, int column) {
    return l->cell[column] && l->cell[column][0];
}

sl_status sl_cells_refuse(const sl_csv_cells *l, int column, const char *why) {
    return sl_error(SL_EINVAL, "%s:%d: '%s' %s, got '%.60s'", l->file, l->number, l->names[column], why,
                    l->cell[column] ? l->cell[column] : "");
}

sl_status sl_cells_whole(const sl_csv_cells *l, int column, int64_t most, int64_t *value) {
    char *end;
    const char *text = l->cell[column];
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end || errno || number < 0 || number > most)
        return sl_cells_refuse(l, column, "must be a whole number of 0 or more");
    *value = number;
    return SL_OK;
}

sl_status sl_cells_real(const sl_csv_cells *l, int column, double least, double most, double *value) {
    char *end;
    const char *text = l->cell[column];
    errno = 0;
    *value = strtod(text, &end);
    if (end == text || *end || errno || !isfinite(*value) || *value < least || *value > most)
        return sl_cells_refuse(l, column, "must be a number in range");
    return SL_OK;
}
