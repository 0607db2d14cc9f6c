/* Lower bounds on the makespan of every schedule of a problem, for any order and regime: heads and tails of
 * the relaxation (plan/bound/relaxation.h) and on each rank and wire the preemptive one-machine bound between
 * them (Jackson). */
#pragma once

#include "plan/bound/relaxation.h"
#include "plan/pipeline/problem.h"

/** ns. `deep` as in sl_relaxation_make. SL_ENOMEM. */
sl_status sl_lower_bound(const sl_problem *problem, int deep, sl_time *bound);

/** The same from an existing relaxation. */
sl_status sl_relaxation_bound(const sl_relaxation *relaxation, sl_time *bound);
