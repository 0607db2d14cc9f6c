/* The period of a plan: the time from iteration to iteration when its order repeats without end, each
 * iteration as early as the synchronization of the problem allows.
 *
 * An iteration turns the instants at which it finds ranks, wires and so on free into those at which it leaves
 * them (sl_replayer_repeat). Each result is the latest of some of the given instants, each plus a constant,
 * so the constants form a matrix, and the period is the largest mean of a cycle in it: the maximum cycle
 * ratio of the event graph. The replay finds the constants, one instant at a time. */
#pragma once

#include "plan/lower/program.h"

/** The period in ns, rounded up to a whole one. With synchronization by a norm: the end of the whole
 * iteration. SL_EINVAL: deadlock, regime fifo, ranks that share wires (the order of messages of two
 * iterations would depend on their times), or times too long. O(ranks * ops + ranks^3). SL_ENOMEM. */
sl_status sl_period(const sl_problem *problem, const sl_program *program, sl_time *period);

/** The largest mean of a cycle, rounded up: weight[to * count + from] >= 0, or SL_NO_EDGE. 0: no cycle. The
 * sum of `count` weights must be below INT64_MAX / 4. SL_ENOMEM. */
#define SL_NO_EDGE INT64_MIN
sl_status sl_cycle_mean(const sl_time *weight, int count, sl_time *mean);
