/* A watched job on the board: the status that the watch in charge tells, in its store (cluster.h) or in its
 * folder, and watch.json, where the folder has the ranks, links and iterations as well (docs/watching.md). */
#pragma once

#include "dashboard/board.h"

/** The object of /status.json. SL_ENOMEM. */
sl_status sl_watched_status(sl_board *board, const json_t *status);

/** The ranks of a job that has ended are not gone: they stay as they were last. */
void sl_watched_ended(sl_board *board);

/** watch.json but for its iterations (folder/follow.h hands them out). What of it cannot be read is left out.
 * SL_EINVAL: it is none. SL_ENOMEM. */
sl_status sl_watched_take(sl_board *board, const json_t *watch);

/** report.json, which a watch leaves at its end. */
void sl_watched_outcome(sl_board *board, const json_t *outcome);
