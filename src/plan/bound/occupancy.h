/* The bound of a rank's memory: what occupies it, for how long, and how much fits.
 *
 * A microbatch occupies the memory of each of its stages from the start of F to the end of I or W, at least
 * for the round trip to the last stage and back. All stages of a rank share its memory, so their occupancies,
 * in memory times time, take some time together. Before the first heads and after the last tails, the memory
 * cannot be full: at the start, as much as has come can be used, and at the end, what still has to leave. */
#pragma once

#include "plan/bound/relaxation.h"

/** Raises *bound, which may include the relaxation's excess, if it is deep and there is a limit. SL_ENOMEM.
 */
sl_status sl_occupancy_bound(const sl_relaxation *relaxation, sl_time *bound);
