/* The page's data for Prometheus (text format 0.0.4). Metrics that mean the same as in `slackline watch` have
 * the same name (notice/watch/watch_metrics.h); those of runs only are here. docs/dashboard.md lists all. */
#pragma once

#include "dashboard/board.h"
#include "notice/watch/watch_metrics.h"

/** Writes HELP, TYPE and samples of each; unknown values have no sample. */
void sl_board_metrics_write(FILE *out, const sl_board *board);
