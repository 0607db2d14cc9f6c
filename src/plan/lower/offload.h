/* Offloading: moves a rank's activations to host memory and back.
 *
 * A rank has one copy engine. It makes one move at a time, in either direction, in program order, in parallel
 * with the rank's ops. The memory kept by F of a microbatch may move out between F and I or B, and the memory
 * kept until W, after I. A move takes host memory at its start and frees device memory at its end. A fetch
 * before the op that needs it takes device memory at its start and frees host memory at its end, and the op
 * waits for it. An F (or any op that takes memory) that would exceed the limit waits for the end of the move
 * that makes room. An activation counts as one on the host, regardless of its size.
 *
 * The moves follow from order, limits and times, so a plan does not store them. A pass over the rank's steps
 * makes only necessary moves: if a step or a fetch does not fit, it moves out the activation that is needed
 * last, among those whose move would end in time (else among those with the least delay). A fetch starts
 * early enough to be hidden by the ops before its use, assuming no idle time, and makes room for itself. Each
 * activation moves out at most once between two of its ops. The result holds for any waiting of the ranks:
 * memory is counted by the dependencies of steps and moves, not by expected times. If an order needs more
 * than device and host have, the pass exceeds the device's limit, never the host's, and the plan's memory
 * check reports it. */
#pragma once

#include "plan/lower/program.h"

/** Adds the moves of every rank to an otherwise complete program (none if the problem has no host memory).
 * SL_ENOMEM. */
sl_status sl_offload_make(const sl_problem *problem, sl_program *program);

/** Recomputes the moves of one rank after a change of its step order. Returns whether the rank stays within
 * its limit. O(steps + moves * activations in flight). The program must be from sl_lower, with host memory.
 */
int sl_offload_rank(const sl_problem *problem, sl_program *program, int rank);

void sl_offload_free(sl_rank_program *program);
