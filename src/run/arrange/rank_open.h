/* The state of a rank at its position besides its binding: connections, records, the engine and its program,
 * and on the leader the state of every replica. Created when a run opens and again for each arrangement
 * (rearrange.h), from its planning (planning.h). */
#pragma once

#include "run/arrange/trainer.h"

/** Collective, with t->binding open. Runs the first order from the next iteration on; the ranks carry the
 * messages.
 */
sl_status sl_rank_state_open(sl_trainer *t);
/** Also closes a partly opened position. Frees all of the position except binding, plans and groups; also
 * problem and first order. */
void sl_rank_state_close(sl_trainer *t);

/** Lowers an order and runs it from the next iteration on. */
sl_status sl_rank_state_run_order(sl_trainer *t, const sl_order *order);
/** The scheduling class of the communication thread; "none" without one. */
const char *sl_rank_state_scheduling(const sl_trainer *t);
