/* The current state for Prometheus (text format 0.0.4). Every name is in one table, which docs/watching.md
 * repeats. */
#pragma once

#include "notice/control/job_status.h"

#include <stdio.h>

typedef struct sl_metric {
    const char *name, *type, *help;
} sl_metric;

/** The table; *count entries. */
const sl_metric *sl_metrics_all(int *count);

/** The entry of that name, for other producers of the same metric; NULL. */
const sl_metric *sl_metrics_find(const char *name);

/** HELP and TYPE of a metric, before its samples. */
void sl_metrics_begin(FILE *out, const sl_metric *metric);
/** A metric with one sample; none if the value is not finite. */
void sl_metrics_count(FILE *out, const sl_metric *metric, int64_t value);
void sl_metrics_value(FILE *out, const sl_metric *metric, double value);
/** A text inside a label's quotes. */
void sl_metrics_label(FILE *out, const char *text);

/** Writes HELP, TYPE and samples of each; unknown times have no sample. */
void sl_metrics_write(FILE *out, const sl_status_view *view);
