/* What a runtime adds to ops and messages (`overhead_ms` of problem files), from a measured timeline. */
#pragma once

#include "plan/pipeline/problem.h"
#include "plan/timing/timeline.h"

/** From the times between two ops of a rank, of which the second one waited for nothing: *op is their median
 * where no message was sent or received between them, *message the additional time per message. Both are 0 if
 * no such times were measured. Spans of a rank are in its order. SL_ENOMEM. */
sl_status sl_overhead_measure(const sl_timeline *measured, const sl_problem *problem, sl_time *op,
                              sl_time *message);
/** The same, into `problem`, whose times of ops are those measured, without overhead. */
sl_status sl_overhead_profile(const sl_timeline *measured, sl_problem *problem);
