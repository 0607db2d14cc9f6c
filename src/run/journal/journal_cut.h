/* The files of an earlier attempt, made ready to be continued. */
#ifndef SL_RUN_JOURNAL_JOURNAL_CUT_H
#define SL_RUN_JOURNAL_JOURNAL_CUT_H

#include "base/status.h"

/** metrics.jsonl: keeps the whole lines of iterations before `first`, in one step. Absent: stays so. SL_ESYS.
 */
sl_status sl_journal_cut_metrics(const char *path, int first);

/** events.jsonl: drops a last line that was not written to its end. */
sl_status sl_journal_cut_events(const char *path);

#endif
