/* Offloading: which activations of a rank go to host memory and back, and when.
 *
 * A rank has one copy engine. It makes one move at a time, in either direction, in the order of the program,
 * beside the rank's ops. Once F of a microbatch has ended, what it keeps may move out until I or B need it,
 * and once I has ended what is kept until W: host memory is taken when the move starts, device memory is free
 * when it ends. It is fetched before the op that needs it: device memory is taken at the fetch's start, host
 * memory is free at its end, and the op waits for that. An F (or whatever takes memory) that would pass the
 * limit waits until the move that makes room has ended. An activation counts as one on the host, whatever its
 * size.
 *
 * The moves follow from order, limits and times alone, so a plan need not carry them. A pass over the rank's
 * steps moves out no more than must go: when a step does not fit, or a fetch, the activation that is needed
 * last, of those whose move would be over in time (else of those that delay least); a fetch is
 * put where the ops until then still hide it, counting on no idle time, and makes room for itself.
 * Each activation moves out at most once between two of its ops. What the pass allows holds whatever the
 * ranks wait for: memory is counted by what steps and moves wait for, not by when they are expected. Where an
 * order needs more than device and host have, the pass lets it go over the device's limit, never over the
 * host's, and the memory check of the plan says so. */
#pragma once

#include "plan/lower/program.h"

/** Gives every rank of a program that is otherwise complete its moves (none where the problem has no host
 * memory). SL_ENOMEM. */
sl_status sl_offload_make(const sl_problem *problem, sl_program *program);

/** Derives the moves of one rank anew, after its steps have changed places. Returns whether the rank keeps
 * its limit. O(steps + moves * activations in flight). The program must be from sl_lower, with host memory.
 */
int sl_offload_rank(const sl_problem *problem, sl_program *program, int rank);

void sl_offload_free(sl_rank_program *program);
