/* Who carries the messages of a run: the ranks themselves or delegates, changed between two iterations; and
 * what happens to their rails, as events. */
#pragma once

#include "run/arrange/trainer_state.h"

/** `delegates` > 0: so many carry the messages of a link and direction from the next iteration on; -1: none
 * any more; 0: no change. Collective; nothing is under way. Nothing happens on a run of one rank. */
sl_status sl_path_change(sl_trainer *t, int delegates);

/** The rank that leads writes down what endpoints and delegates of all ranks had to say since the last call.
 * Collective. */
sl_status sl_path_news(sl_trainer *t, int iteration);
