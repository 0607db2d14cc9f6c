/* A watched job on the board: the status reported by the watch in charge, in its store (cluster.h) or in its
 * folder, and watch.json, whose folder has the ranks, links and iterations as well (docs/watching.md). */
#pragma once

#include "dashboard/board.h"

/** The object of /status.json. SL_ENOMEM. */
sl_status sl_watched_status(sl_board *board, const json_t *status);

/** Ranks of an ended job are not gone: they keep their last state. */
void sl_watched_ended(sl_board *board);

/** watch.json except its iterations (folder/follow.h hands them out). Unreadable parts are skipped.
 * SL_EINVAL: not a watch.json. SL_ENOMEM. */
sl_status sl_watched_take(sl_board *board, const json_t *watch);

/** report.json, written by a watch at its end. */
void sl_watched_outcome(sl_board *board, const json_t *outcome);
