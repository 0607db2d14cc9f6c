/* Prepares the metrics of an earlier attempt for continuation. */
#pragma once

#include "base/status.h"

/** metrics.jsonl: keeps the whole lines of iterations before `first`. Holds one line in memory at a time, and
 * the file never grows. If absent, stays absent. SL_ESYS. */
sl_status sl_journal_cut_metrics(const char *path, int first);
