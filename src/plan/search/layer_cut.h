/* The cut: which layers make which stage, chosen together with the schedule. Starting from the cut whose
 * slowest rank is fastest, boundaries are moved one by one as long as the shortest quick schedule (families
 * and portfolio) gets shorter; each cut is judged by its schedule, not by its balance alone, so links, memory
 * and the ends of the pipeline count. */
#pragma once

#include "base/clock.h"
#include "plan/pipeline/layers.h"

/** Chooses and sets the cut of a problem with layers, `until` then at most. SL_ENONE: no cut
 * leaves any schedule within the memory. Nothing without layers. */
sl_status sl_cut_choose(sl_problem *problem, sl_limit until);

/** A lower bound over all cuts, ns: where there are few, the least of their bounds; else what the slowest
 * rank of the most balanced cut must do. SL_ENOMEM. */
sl_status sl_cut_bound(const sl_problem *problem, sl_time *bound);
