/* Opens and closes a rank. What belongs to its position is planned (planning.h) and opened (rank_open.h)
 * again for each arrangement. */
#pragma once

#include "run/arrange/trainer.h"

/** Takes the initial position: determines hosts, plans, opens the binding, loads a checkpoint if one is to be
 * resumed from, connects to the peers and, on the leader, opens the log. The ranks carry the messages.
 * Collective. `run` and `site` must stay. Close with sl_trainer_close, also on error. */
sl_status sl_trainer_open(const sl_run *run, const sl_run_site *site, sl_group *world, sl_trainer *t);
void sl_trainer_close(sl_trainer *t);
