/* The rank that leads, behind each iteration: from the records of all ranks to each replica's timeline and
 * measurements, to what the orchestrator makes of them (body.h), and to the lines of the journal. */
#pragma once

#include "run/arrange/trainer_state.h"

/** From what was gathered of an iteration that began at `begin` to measurements, events and the
 * pending line of the journal. */
sl_status sl_judge(sl_trainer *t, int iteration, sl_time begin);
