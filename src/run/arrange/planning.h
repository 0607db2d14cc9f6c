/* Planning before ranks take their positions, once per arrangement: the memory of a position, and the problem
 * and first order of each replica, made by the leader and sent to all. */
#pragma once

#include "run/arrange/trainer.h"

/* The leader's: of a replica in this arrangement. */
typedef struct sl_replica_plan {
    sl_problem problem;
    sl_plan plan; /* the first */
} sl_replica_plan;

/** Collective: sizes[ranks] of all pipeline ranks; of those that hold the same stages, the largest. */
sl_status sl_planning_measure(sl_trainer *t, sl_binding_sizes *sizes);

/** Collective: problem and first order of this rank's replica, in t->state; on the leader also the plans of
 * all. `before` (NULL: none): the replicas of the previous arrangement, whose orders are kept if the number
 * of microbatches is the same. `given` (NULL on other ranks, and for none): [data] on the leader, plans to
 * run instead. SL_ENONE: it does not fit into device.memory_mb. */
sl_status sl_planning_make(sl_trainer *t, const sl_binding_sizes *sizes, const sl_replica_plan *before,
                           const sl_plan *const *given);
/** Those of all replicas; NULL is fine. */
void sl_planning_free(const sl_trainer *t, sl_replica_plan *plans);
/** The leader's, [data], until the next arrangement. */
const sl_replica_plan *sl_planning_plans(const sl_trainer *t);

/** Max. microbatches that this rank may hold between F and W, counted once for each stage that holds one. */
sl_status sl_planning_in_flight(const sl_trainer *t, int *in_flight);
/** Of those, max. in host memory; 0: none. */
int sl_planning_hosted(const sl_trainer *t);
