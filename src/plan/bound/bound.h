/* Lower bounds on every schedule of a problem under its objective, for any order and regime.
 *
 * Makespan: heads and tails of the relaxation (plan/bound/relaxation.h) and on each rank and wire the
 * preemptive one-machine bound between them (Jackson), and that of each rank's memory
 * (plan/bound/occupancy.h). Span: the same in the window of each rank, from its
 * first op to its last. Period: a window again, since a rank's next iteration begins after its last op; and
 * what follows itself in every iteration: the messages of a wire, the collectives of a rank, a stage's work,
 * reduction and gather. */
#pragma once

#include "plan/bound/relaxation.h"
#include "plan/pipeline/problem.h"

/** ns. `deep` as in sl_relaxation_make. SL_ENOMEM. */
sl_status sl_lower_bound(const sl_problem *problem, int deep, sl_time *bound);

/** That of the makespan, or of the window, from an existing relaxation. */
sl_status sl_relaxation_bound(const sl_relaxation *relaxation, sl_time *bound);
