/* What a run does about slow devices and links, beyond another schedule: the ladder (adapt/ladder/ladder.h)
 * over all replicas, with what `adaptation.strategies` allows.
 *
 *   schedule   another schedule for a replica; adapt/schedule/decision.h decides and the ladder is told
 *   delegate   delegates carry the messages; likewise
 *   balance    slow replicas get fewer microbatches (rearrange.h); losses then differ by rounding
 *   topology   processes change places (rearrange.h); keeps every bit
 *   restart    from a checkpoint without the slow host (departure.h); keeps every bit
 *
 * An incident is a piece of the cluster that is slow: the device of a process, or the connection of two, by
 * the places that they had when the attempt began (their home), so it stays the same when places change. It
 * begins when findings.h names it and the iterations are slow, and is over when it is named no more. What
 * each piece loses: the loss of the whole iteration, as far as what is slow explains it, divided by what the
 * model says that each costs alone.
 *
 *   remedy.c        each iteration on every rank: what the ladder says is done
 *   remedy_seen.c   rank that leads: from findings to incidents and their losses
 *   remedy_model.c  what an iteration would take in another arrangement, by the timing model
 *   remedy_gather.c slow devices in as few replicas as can be
 *   remedy_exchange.c places by exchanging two at a time, as long as the model gains
 *   remedy_strategies.c  the ladder's strategies over that model
 *
 * decisions.txt in the run's folder tells it as sentences, events.jsonl as events `decision`. */
#ifndef SL_RUN_REMEDY_REMEDY_H
#define SL_RUN_REMEDY_REMEDY_H

#include "run/arrange/state.h"

typedef struct sl_remedy sl_remedy;

/** On the rank that leads, after the adaptations are open; others leave t->remedy NULL. SL_ESYS, SL_ENOMEM.
 */
sl_status sl_remedy_open(sl_trainer *t);
/** NULL is fine. */
void sl_remedy_close(sl_remedy *remedy);

/** The leader: a replica's adaptation changes its schedule or the path of messages, which it decides by
 * itself; decisions.txt has that, too. Other events are left out. */
void sl_remedy_note(sl_trainer *t, const sl_event *event);

/** Collective, between two iterations: `iteration` has been judged. */
sl_status sl_remedy_step(sl_trainer *t, int iteration);

#endif
