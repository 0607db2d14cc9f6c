/* Profile: turns a measured timeline into a problem, so that the planner uses measured times. */
#pragma once

#include "plan/pipeline/problem.h"
#include "plan/timing/timeline.h"

/** `problem` gives shape, memory and regime; its op times become the median over microbatches of the measured
 * durations per stage and kind, all parts of an op together (kinds that did not run keep their time; B
 * becomes the sum of I and W if only those ran; I and W share B's time as before if only B ran). Pairs count
 * separately: `saved` becomes the median of F + B minus the pair, of each stage's pairs. Its links become the
 * medians per direction: latency of arrive - end, transfer of end - start; the time of a stage's gathers, and
 * that of its moves to host memory and back, becomes their median. A link that carried n messages at the same
 * time (delegates with one flow each) is described as one that carries one at a time, n times as fast, with
 * the difference added to its latency, and its lanes are n (else 0). If no end of a transfer was recorded, the
 * messages' waiting for each other gives the time for which one occupies the link (wire_fit.h). SL_ENOMEM. */
sl_status sl_profile(const sl_timeline *measured, sl_problem *problem);
