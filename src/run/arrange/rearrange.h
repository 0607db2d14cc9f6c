/* Changes the rank map and the number of microbatches of each replica between two iterations of a running job
 * (Falcon, section 5.3, strategies S2 and S3): one mechanism for both, for any permutation of the processes
 * over the positions (pipeline rank, replica, tensor rank).
 *
 * Nothing goes through a disk (section 7.4). Weights and moments go from memory to memory, from the previous
 * to the next process of a position, unless the next one holds them already: without ZeRO, exchanging
 * replicas moves nothing. Microbatches keep their global numbers, so with the same split every bit of losses
 * and weights is that of a run without rearrangement; another split groups their sums differently.
 *
 *   settle   a checkpoint under way is written, due updates are made, delegates and connections are ended
 *   groups   the world becomes a new group, by positions, and so do pipelines, replicas and tensor ranks
 *   plan     the planner's problems; replicas with a new number of microbatches are planned again, the others
 *            start with the first order of one that had as many; or the caller's plans are used
 *   states   the binding of the new position is opened next to the old one and filled from memory (binding.h:
 *            device memory may be needed twice for that time)
 *   connect  transport, records, engine, and as many delegates as before
 *
 * The process with initial world rank 0 remains the leader at any position (t->leader). After a restart every
 * process is in its initial position again until the next rearrangement. A process that dies meanwhile ends
 * the attempt as at any other time. */
#pragma once

#include "run/arrange/trainer.h"

typedef struct sl_arrangement {
    const int *home;            /* [world] initial world rank of each position's process; NULL: unchanged */
    const int *split;           /* [data] microbatches of each replica; NULL: unchanged */
    const sl_plan *const *plan; /* [data] plan of each replica; NULL: planned as at the start of the run */
    const char *why;            /* for the event; NULL: no event text */
    int requested;              /* by the run file */
} sl_arrangement;

typedef struct sl_rearranged {
    sl_time settle, groups, plan, states, connect, whole; /* on the rank that leads */
    double bytes_moved;                                   /* between processes, all together */
    int moved;                                            /* processes that changed positions */
} sl_rearranged;

/** Collective, between two iterations, before `iteration`: carries out `next`, given by the leader (NULL on
 * other ranks), and writes the event `arrange`. *took is set on the leader and 0 elsewhere; also 0 if `next`
 * changes nothing. SL_EINVAL: not a permutation of the processes, or the split's sum is not the run's
 * microbatches; SL_ENONE: a split does not fit into device.memory_mb; SL_EPEER, SL_ENOMEM, SL_ESYS. After an
 * error the run cannot continue. */
sl_status sl_rearrange(sl_trainer *t, int iteration, const sl_arrangement *next, sl_rearranged *took);
