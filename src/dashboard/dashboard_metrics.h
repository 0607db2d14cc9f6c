/* What the page shows as Prometheus reads it (text format 0.0.4). What means the same as in `slackline watch`
 * has the same name (notice/watch/watch_metrics.h); what a run alone has is in the table here.
 * docs/dashboard.md lists all. */
#pragma once

#include "dashboard/board.h"
#include "notice/watch/watch_metrics.h"

/** Writes HELP, TYPE and samples of each; what is not known has no sample. */
void sl_board_metrics_write(FILE *out, const sl_board *board);
