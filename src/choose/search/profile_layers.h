/* A profile's stages as layers, and layers over another number of ranks (effort.h). */
#pragma once

#include "plan/pipeline/problem.h"

/** The profile's stages as a problem with layers, in the profile's own cut. SL_EINVAL: fewer layers than
 * stages, stages that recompute, or a bidirectional placement. Free with sl_problem_free, also on error. */
sl_status sl_problem_of_layers(const sl_problem *profile, int layers, sl_problem *problem);

/** The problem of one of `replicas` replicas with `ranks` ranks each, from that of one of `before` replicas:
 * the microbatches are shared out, links are the slowest of now, all ranks as fast as the slowest, sums take
 * what the ring's formula makes of them. SL_ENONE: the present sums say nothing about other sizes. Free
 * with sl_problem_free, also on error. */
sl_status sl_layers_over_ranks(const sl_problem *layered, int before, int ranks, int replicas,
                               sl_problem *sized);
