/* What is made once when a run opens. What belongs to seats is planned (run/arrange/planning.h) and made
 * (run/arrange/seated.h) anew for each arrangement. */
#pragma once

#include "run/arrange/trainer_state.h"

/** Copies what of the run may change; everybody sits at home. Close with sl_trainer_close, also on error. */
sl_status sl_trainer_take_run(sl_trainer *t, const sl_run *run);

/** Plans, makes the stage, connects to the peers and opens the journal (the rank that leads). Collective.
 * `t` holds run, groups, place and clock, of the rest nothing. */
sl_status sl_trainer_open(sl_trainer *t);
void sl_trainer_close(sl_trainer *t);
