/* Who sits where, and how many microbatches each replica takes, changed between two iterations of a run that
 * goes on (Falcon, section 5.3, strategies S2 and S3): one mechanism for both, for any permutation of the
 * processes over the seats (pipeline rank, replica, tensor rank).
 *
 * Nothing goes through a disk (section 7.4). Weights and moments go from memory to memory, from who has sat
 * in a seat to who will, only where the newcomer does not hold them already: a change of replicas alone moves
 * nothing without ZeRO. Microbatches keep their global numbers, so with the same split every bit of losses
 * and weights is that of a run that was never rearranged; another split groups their sums otherwise.
 *
 *   settle   a checkpoint under way is written, due updates are made, delegates and connections are ended
 *   groups   the world becomes a new group, by seats, and so do pipelines, replicas and tensor ranks
 *   plan     the planner's questions; replicas whose number of microbatches is new are planned anew, the
 *            others begin with the first order of one that had as many; or the plans that somebody gives
 *   states   the binding of the new seat is opened beside the old one and filled from memory (binding.h:
 *            device memory may be needed twice for that time)
 *   connect  transport, records, engine, and as many delegates as there were
 *
 * The process whose home is world rank 0 leads on, wherever it sits (t->leader). After a restart everybody
 * sits at home again, until somebody asks for more. A process that dies on the way ends the attempt like at
 * any other time. */
#pragma once

#include "run/arrange/trainer_state.h"

typedef struct sl_arrangement {
    const int *home;  /* [world] home of the process that takes each seat (world rank); NULL: as they sit */
    const int *split; /* [data] microbatches of each replica; NULL: as now */
    const sl_plan *const *plan; /* [data] what each replica runs then; NULL: planned as when the run began */
    const char *why;            /* for the event; NULL: nothing is said */
} sl_arrangement;

typedef struct sl_rearranged {
    sl_time settle, groups, plan, states, connect, whole; /* on the rank that leads */
    double bytes_moved;                                   /* between processes, all together */
    int moved;                                            /* processes that changed seats */
} sl_rearranged;

/** Collective, between two iterations, before `iteration`: carries out `next`, which the rank that leads
 * names (NULL elsewhere), and writes the event `arrange`. *took is known there and 0 elsewhere; 0 as well
 * where `next` is what is. SL_EINVAL: no permutation of the homes, or the split is not the run's
 * microbatches; SL_ENONE: a split does not fit into device.memory_mb; SL_EPEER, SL_ENOMEM, SL_ESYS. After an
 * error the run cannot go on. */
sl_status sl_rearrange(sl_trainer *t, int iteration, const sl_arrangement *next, sl_rearranged *took);
