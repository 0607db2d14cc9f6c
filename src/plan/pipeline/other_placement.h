/* The same work under another placement, so that placements can be compared on one problem file. */
#pragma once

#include "plan/pipeline/problem.h"

/** The placement of this name; -1: unknown. */
int sl_placement_find(const char *name);

/** `problem` with `placement` and as many stages as a file without `stages` gets (linear: ranks, else 2 *
 * ranks); a copy if that is already its placement.
 *
 * Every rank keeps its work: the costs of its stages for a microbatch (times, savings of pairs, memory
 * changes, gathers and reductions) are divided evenly among the rank's new stages. So a chunk of a loop or
 * wave has half of the linear stage's times and memory. Bidirectional: a microbatch meets a rank once, in one
 * of two whole copies, so each stage has the full cost. Nanoseconds that do not divide go to the first
 * chunks. A new stage recomputes if one of the rank's old ones did. Links, limits, parts and regime stay.
 * Stages cut from layers are cut again, evenly (plan/pipeline/layers.h); only their collectives are divided.
 *
 * SL_EINVAL: too many ops, a total beyond SL_MAX_TOTAL_MS, or fewer layers than stages. Free with
 * sl_problem_free, also on error. */
sl_status sl_problem_with_placement(const sl_problem *problem, sl_placement placement, sl_problem *placed);
