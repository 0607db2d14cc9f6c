/* Trace files on disk: plain or compressed with gzip. */
#pragma once

#include "plan/trace/collect.h"

/** Adds a file ("-": standard input) to `traced`, piece by piece. SL_EINVAL names the file. */
sl_status sl_trace_file_read(const char *path, sl_traced *traced);
