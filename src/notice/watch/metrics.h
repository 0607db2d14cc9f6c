/* What is known as Prometheus reads it (text format 0.0.4). Every name is in one table, which
 * docs/watching.md repeats. */
#ifndef SL_NOTICE_WATCH_METRICS_H
#define SL_NOTICE_WATCH_METRICS_H

#include "notice/control/status.h"

#include <stdio.h>

typedef struct sl_metric {
    const char *name, *type, *help;
} sl_metric;

/** The table; *count entries. */
const sl_metric *sl_metrics_all(int *count);

/** Writes HELP, TYPE and samples of each; times that are not known have no sample. */
void sl_metrics_write(FILE *out, const sl_status_view *view);

#endif
