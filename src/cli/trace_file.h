/* Trace files on disk: plain or compressed with gzip. */
#pragma once

#include "plan/trace/collect.h"

/* What takes a file's bytes. */
typedef struct sl_trace_reader {
    sl_status (*begin)(void *object, const char *name);
    sl_status (*feed)(void *object, const char *bytes, size_t size);
    sl_status (*end)(void *object);
    void *object;
} sl_trace_reader;

/** Gives a file ("-": standard input) to `reader`, piece by piece. SL_EINVAL names the file. */
sl_status sl_trace_file_give(const char *path, const sl_trace_reader *reader);

/** Adds a file ("-": standard input) to `traced`, piece by piece. SL_EINVAL names the file. */
sl_status sl_trace_file_read(const char *path, sl_traced *traced);
