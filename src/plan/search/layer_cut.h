/* The cut assigns layers to stages; it is chosen together with the schedule. The search starts from the most
 * balanced cut and moves boundaries one by one while the shortest quick schedule (families and portfolio)
 * gets shorter. Each cut is assessed by its schedule, not only by its balance, so links, memory and the ends
 * of the pipeline count. */
#pragma once

#include "base/clock.h"
#include "plan/pipeline/problem.h"

/** Chooses and sets the cut of a problem with layers, at most until `until`. SL_ENONE: no cut has a schedule
 * that fits into memory. Does nothing without layers, or if a layout gives the cut. */
sl_status sl_cut_choose(sl_problem *problem, sl_limit until);

/** A lower bound over all cuts, ns: the minimum of their bounds if there are few, else the work of the
 * slowest rank of the most balanced cut. SL_ENOMEM. */
sl_status sl_cut_bound(const sl_problem *problem, sl_time *bound);
