/* Planning before ranks take their seats, once per arrangement: the memory of a seat, and the problem and
 * first order of each replica, made by the leader and sent to all. */
#pragma once

#include "run/arrange/trainer_state.h"

/** Collective: sizes[ranks] of all pipeline ranks; of those that hold the same stages, the largest. */
sl_status sl_planning_measure(sl_trainer *t, sl_binding_sizes *sizes);

/** Collective: t->problem and t->first of this rank's replica; on the leader t->replica with problem and plan
 * of each. `before` (NULL: none): the replicas of the previous arrangement, whose orders are kept if the
 * number of microbatches is the same. `given` (NULL on other ranks, and for none): [data] on the leader,
 * plans to run instead. SL_ENONE: it does not fit into device.memory_mb. */
sl_status sl_planning_make(sl_trainer *t, const sl_binding_sizes *sizes, const sl_trainer_replica *before,
                           const sl_plan *const *given);
/** All replicas of an arrangement; NULL is fine. */
void sl_planning_free(const sl_trainer *t, sl_trainer_replica *replica);

/** Max. microbatches that this rank may hold between F and W, counted once for each stage that holds one. */
sl_status sl_planning_in_flight(const sl_trainer *t, int *in_flight);
/** Of those, max. in host memory; 0: none. */
int sl_planning_hosted(const sl_trainer *t);
