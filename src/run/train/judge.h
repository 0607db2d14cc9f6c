/* The leader, after each iteration: turns the records of all ranks into each replica's timeline and
 * measurements, the orchestrator's actions (body.h), and the lines of the journal. */
#pragma once

#include "run/arrange/trainer_state.h"

/** Turns the gathered data of an iteration that began at `begin` into measurements, events and the pending
 * line of the journal. */
sl_status sl_judge(sl_trainer *t, int iteration, sl_time begin);
