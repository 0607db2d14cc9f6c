/* The path of a run's messages: the ranks themselves or delegates, changed between two iterations; and the
 * events of their rails. */
#pragma once

#include "run/arrange/trainer.h"

/** How many delegates carry the messages of a link and direction; 0: the ranks do. */
int sl_path_delegates(const sl_trainer *t);
/** Duration of the last change; -1: none yet. */
sl_time sl_path_cost(const sl_trainer *t);

/** `delegates` > 0: this many carry the messages of a link and direction from the next iteration on; -1:
 * ranks carry them again; 0: no change. Collective; nothing is under way. Does nothing on a run of one
 * rank. */
sl_status sl_path_change(sl_trainer *t, int delegates);

/** The leader records the events of endpoints and delegates of all ranks since the last call. Collective. */
sl_status sl_path_event(sl_trainer *t, int iteration);
