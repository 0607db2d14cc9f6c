/* Reads the input of `detect` line by line, so that standard input may last for days: CSV with or without a
 * header, JSON lines (metrics.jsonl), or a recorded call log, which is a CSV with the columns call,
 * communicator, peer, bytes, start_ns and (if it has several ranks) rank. */
#pragma once

#include "base/status.h"
#include "notice/detect/period.h"
#include <stdio.h>

typedef struct sl_series_reader {
    const char *name; /* of the file, for errors */
    FILE *file;
    const char *wanted; /* --column; NULL: time_ms, else the last numeric one */
    char *line;
    size_t line_size;
    long line_number;
    int begun, is_json, is_calls;
    int first_pending; /* the first line is data: no header */
    char **header;     /* [columns] of a CSV with a header; NULL: none */
    char **cell;       /* [cells] of the current line, inside `line` */
    size_t header_room, columns, cell_room, cells;
    int column;         /* of a CSV; -1: not chosen yet */
    char *key;          /* the same for JSON */
    int call_column[6]; /* call, communicator, peer, bytes, start_ns, rank (-1: none) */
} sl_series_reader;

typedef struct sl_series_call {
    sl_symbol symbol;
    int64_t start, rank; /* rank 0 if the log has none */
} sl_series_call;

/** Opens `path` ("-": standard input) and reads its first line: is_calls is known afterwards. SL_EINVAL.
 * Close also on error. */
sl_status sl_series_reader_open(const char *path, const char *column, sl_series_reader *series);
void sl_series_reader_close(sl_series_reader *series);

/** The next sample; *end is 1 if there is none. SL_EINVAL with file, line and column. */
sl_status sl_series_reader_next(sl_series_reader *series, double *sample, int *end);

/** The next call of a call log. */
sl_status sl_series_reader_next_call(sl_series_reader *series, sl_series_call *call, int *end);

/** SL_EINVAL that names file, line, column and the cell last read. */
sl_status sl_series_reader_refuse(const sl_series_reader *series, const char *why);
