/* The orchestrator's body (adapt/orchestrator/orchestrator.h): what it is told of a run at its opening, and
 * what all ranks do between two iterations because it says so.
 *
 *   plan      another order for a replica's engines; changes no bit
 *   path      delegates carry the messages, or ranks do; changes no bit
 *   layout    processes change places (changes no bit), replicas get other numbers of microbatches (their
 *             losses then differ by rounding): run/arrange/rearrange.h
 *   leave     a restart from a checkpoint without a host: run/arrange/departure.h
 *   network   every link measured: run/arrange/network_profile.h
 *
 * decisions.txt in the run's folder has what was considered and done, events.jsonl its events. */
#pragma once

#include "run/arrange/trainer_state.h"

/** On the rank that leads, when its plans and its binding are open. SL_ENOMEM. */
sl_status sl_body_open(sl_trainer *t);
/** The leader: t->measured, of `iteration`, which took `time`, is observed; events and decisions are written.
 */
sl_status sl_body_observe(sl_trainer *t, int iteration, sl_time time);
/** Collective, between two iterations: what the orchestrator says is done. */
sl_status sl_body_act(sl_trainer *t, int iteration);
/** The leader: seats, split or plans are others because the run file says so. NULL where none leads. */
sl_status sl_body_moved(sl_trainer *t);
/** Collective: the network is measured before `iteration`, and the orchestrator knows. */
sl_status sl_body_look(sl_trainer *t, int iteration);
