/* Shapes whose replicas have numbers of microbatches by their speed: the devices of some replicas are slower,
 * and an iteration ends with the last replica. The split is that of adapt/balance, by the times of plans. All
 * replicas have the same cut, because the weights of a stage are summed over them, and each has an order of
 * its own. */
#pragma once

#include "choose/search/shape_plan.h"

/** A bound for every cut, schedule and split; *guess is about what a plan takes, ns. SL_TIME_NEVER: replicas
 * do not differ, or nothing fits. SL_EINVAL as sl_shape_problem; SL_ENOMEM. */
sl_status sl_split_bound(const sl_shape_planning *planning, const sl_shape *shape, sl_shape_bound *bound,
                         double *guess);

/** As sl_shape_plan; with the problem and plan of the replica that takes longest. */
sl_status sl_split_plan(const sl_shape_planning *planning, const sl_shape *shape, sl_time bound,
                        double seconds, int threads, sl_choice *made);
