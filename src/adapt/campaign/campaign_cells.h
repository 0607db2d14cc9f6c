/* Lines of a CSV whose columns have names, in any order: the traces and logs that a campaign reads. Errors
 * name file, line and column. */
#pragma once

#include "base/status.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define SL_CELLS 32

/** The text of the file that `key` of the campaign file `file` names, relative to that file unless absolute;
 * `path` becomes its path. SL_EINVAL: it is longer than `most` or holds a zero byte. SL_ESYS, SL_ENOMEM. Free
 * with sl_free. */
sl_status sl_cells_load(const char *file, const char *key, const char *name, size_t most, char path[PATH_MAX],
                        char **text);

typedef struct sl_csv_cells {
    const char *file;
    const char *const *names; /* [columns] known ones */
    int columns;
    int number;                 /* of the line, from 1 */
    char *cell[SL_CELLS];       /* by known column; NULL: the file has no such column */
    int order[SL_CELLS], width; /* known column of each column of the file */
} sl_csv_cells;

/** The text without blanks at its ends; changes it. Never fails. */
char *sl_cells_trim(char *text);
/** Takes the next line that is neither empty nor a comment from *text; the first is the header. *end: there
 * is none. SL_EINVAL. */
sl_status sl_cells_next(sl_csv_cells *cells, char **text, int *end);
/** Whether the file has the column, after the header; whether its cell has text. Never fails. */
int sl_cells_has_column(const sl_csv_cells *cells, int column);
int sl_cells_has(const sl_csv_cells *cells, int column);

/** SL_EINVAL: "FILE:LINE: 'COLUMN' WHY, got '...'". */
sl_status sl_cells_refuse(const sl_csv_cells *cells, int column, const char *why);
/** A whole number from 0 to `most`; a number from `least` to `most`. */
sl_status sl_cells_whole(const sl_csv_cells *cells, int column, int64_t most, int64_t *value);
sl_status sl_cells_real(const sl_csv_cells *cells, int column, double least, double most, double *value);
