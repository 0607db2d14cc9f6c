/* Creates what exists once per run. The parts that belong to seats are planned (run/arrange/planning.h) and
 * created (run/arrange/seated.h) again for each arrangement. */
#pragma once

#include "run/arrange/trainer_state.h"

/** Copies the parts of the run that may change; every process is in its home seat. Close with
 * sl_trainer_close, also on error. */
sl_status sl_trainer_take_run(sl_trainer *t, const sl_run *run);

/** Plans, creates the stage, connects to the peers and opens the journal (the leader). Collective. Before,
 * only run, groups, site and clock of `t` are set. */
sl_status sl_trainer_open(sl_trainer *t);
void sl_trainer_close(sl_trainer *t);
