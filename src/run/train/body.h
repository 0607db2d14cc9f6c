/* The orchestrator's body (adapt/orchestrator/orchestrator.h): passes it the data of a run, and carries out
 * its actions on all ranks between two iterations.
 *
 *   plan      another order for a replica's engines; changes no bit
 *   path      delegates carry the messages, or ranks do; changes no bit
 *   layout    processes change seats (changes no bit), replicas get other numbers of microbatches (their
 *             losses then differ by rounding): run/arrange/rearrange.h
 *   leave     a restart from a checkpoint without a host: run/arrange/departure.h
 *   network   measures every link: run/arrange/network_profile.h
 *
 * decisions.txt in the run's folder logs what was considered and done, events.jsonl its events. */
#pragma once

#include "run/arrange/trainer_state.h"

/** On the leader, after its plans and its binding are open. SL_ENOMEM. */
sl_status sl_body_open(sl_trainer *t);
/** The leader: observes t->measured of `iteration`, which took `time`; writes events and decisions. */
sl_status sl_body_observe(sl_trainer *t, int iteration, sl_time time);
/** Collective, between two iterations: carries out the orchestrator's actions. */
sl_status sl_body_act(sl_trainer *t, int iteration);
/** The leader: the run file has changed seats, split or plans. Other ranks: does nothing. */
sl_status sl_body_moved(sl_trainer *t);
/** Collective: measures the network before `iteration`, and informs the orchestrator. */
sl_status sl_body_look(sl_trainer *t, int iteration);
