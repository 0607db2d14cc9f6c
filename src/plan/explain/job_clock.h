/* Offsets between the clocks of a job's workers, from what ends at the same time on both sides.
 *
 * Between replicas, a collective ends for all at the same time. Along a pipeline, a send and its receive end
 * a delay apart. The delay of activations is theirs plus the offset, that of gradients, in the other
 * direction, theirs minus the offset: half of the difference is the offset, if both directions are equally
 * fast (as in notice/record/offset.h). Of each step the message with the least delay counts, which its
 * receiver awaited, and of these the median. A link that is slow in one direction would look like an offset,
 * so the median over replicas counts. */
#pragma once

#include "plan/explain/job_layout.h"

/** The offset of the clock of each position, ns, relative to the first: offset[pipeline * data]. Where
 * nothing connects two, 0. SL_ENOMEM. */
sl_status sl_hybrid_clocks(const sl_hybrid_trace *trace, const sl_hybrid_layout *layout, sl_time *offset);

/** Moves the events of all positions to the clock of the first. */
void sl_hybrid_clocks_apply(sl_hybrid_trace *trace, const sl_hybrid_layout *layout, const sl_time *offset);
