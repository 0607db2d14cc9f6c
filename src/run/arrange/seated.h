/* The state of a rank in its seat besides its binding: connections, records, the engine and its program, and
 * on the leader the state of every replica. Created when a run opens and again for each arrangement
 * (rearrange.h), from its planning (planning.h). */
#pragma once

#include "run/arrange/trainer_state.h"

/** Collective, with t->binding open. Runs t->first from the next iteration on; the ranks carry the messages.
 */
sl_status sl_seated_open(sl_trainer *t);
/** Also closes a partly opened seat. Frees all of the seat except binding, plans and groups; also t->problem
 * and t->first. */
void sl_seated_close(sl_trainer *t);
