/* The metrics of an earlier attempt, made ready to be continued. */
#pragma once

#include "base/status.h"

/** metrics.jsonl: keeps the whole lines of iterations before `first`. One line is in memory at a time, and
 * the file takes no room that it did not have. Absent: stays so. SL_ESYS. */
sl_status sl_journal_cut_metrics(const char *path, int first);
