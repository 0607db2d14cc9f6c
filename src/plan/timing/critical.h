/* The critical path: the chain of ops, transfers and collectives that determines a predicted makespan. Each
 * element of the chain ends when the next one can begin: the op before on the same rank, the message that an
 * op needs, the message before on the same wire, the send that held a rank, the latency of a link. */
#pragma once

#include "plan/lower/program.h"
#include "plan/timing/timeline.h"

/** Fills `path` with the chain in the order of time and returns its length: an entry i >= 0 is span i of the
 * timeline, -1 - t is transfer t, and spans + c is collective c (or move). Room: spans + transfers +
 * collectives. A pair is represented by one of its two spans. The first entry begins with the makespan or
 * before it (a gather); each begins when the one before ends or, for a transfer, leaves its wire or arrives.
 * Ties: ops before messages, then the lower rank. Problem and program are those of the replay. Never fails;
 * O(path) plus the sends between two on a wire. */
int sl_critical_path(const sl_problem *problem, const sl_program *program, const sl_timeline *timeline,
                     int32_t *path);

#define SL_NO_CAUSE INT32_MIN

/** The cause of an entry's start time, critical or not: the entry before it on its longest chain;
 * SL_NO_CAUSE: none. */
int32_t sl_critical_cause(const sl_problem *problem, const sl_program *program, const sl_timeline *timeline,
                          int32_t entry);
