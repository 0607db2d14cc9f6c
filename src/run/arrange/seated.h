/* What a rank has in its seat besides its binding: connections, records, the engine and its program, and of
 * the rank that leads what it knows of every replica. Made when a run opens and anew for each arrangement
 * (rearrange.h), from what was planned (planning.h). */
#pragma once

#include "run/arrange/trainer_state.h"

/** Collective, with t->binding open. Runs t->first from the next iteration on; the ranks carry the messages.
 */
sl_status sl_seated_open(sl_trainer *t);
/** Also of a part of it. Everything of the seat but binding, plans and groups; t->problem and t->first, too.
 */
void sl_seated_close(sl_trainer *t);
