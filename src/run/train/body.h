/* The orchestrator's body (adapt/orchestrator/orchestrator.h): passes it the data of a run, and carries out
 * its actions on all ranks between two iterations.
 *
 *   plan      another order for a replica's engines; changes no bit
 *   path      delegates carry the messages, or ranks do; changes no bit
 *   layout    processes change positions (changes no bit), replicas get other numbers of microbatches (their
 *             losses then differ by rounding): run/arrange/rearrange.h
 *   leave     a restart from a checkpoint without a host: run/arrange/departure.h
 *   network   measures every link: run/arrange/network_profile.h
 *
 * decisions.txt in the run's folder logs what was considered and done, events.jsonl its events. */
#pragma once

#include "run/train/leader.h"

/** On the leader, after its plans and its binding are open, which took `opened`. Close with sl_body_close,
 * also on error. SL_ENOMEM. */
sl_status sl_body_open(sl_leader *leader, sl_time opened);
void sl_body_close(sl_leader *leader);

/** The leader: observes the replicas' measurements of `iteration`, which took `time`; writes events and
 * decisions. */
sl_status sl_body_observe(sl_leader *leader, int iteration, sl_time time, sl_measured *const *measured);
/** Collective, between two iterations: carries out the orchestrator's actions. `leader` NULL: other ranks. */
sl_status sl_body_act(sl_trainer *t, sl_leader *leader, int iteration);
/** Collective: measures the network before `iteration`, and informs the orchestrator. */
sl_status sl_body_look(sl_trainer *t, sl_leader *leader, int iteration);
/** The leader: the run file has changed positions or split. */
sl_status sl_body_moved(sl_leader *leader);

/** How many plans were exchanged; *cost: median, -1: none. */
int sl_body_swaps(const sl_leader *leader, sl_time *cost);
