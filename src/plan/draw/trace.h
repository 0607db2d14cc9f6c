/* Timelines as a Chrome trace (JSON object format), which Perfetto and chrome://tracing open: one process a
 * rank with its ops, and one track for each of its outgoing links with the transfers, from taking the link to
 * arrival. */
#ifndef SL_PLAN_DRAW_TRACE_H
#define SL_PLAN_DRAW_TRACE_H

#include "plan/timing/timeline.h"
#include <stdio.h>

/** Begins the file and names the tracks of `ranks` ranks. */
sl_status sl_trace_begin(FILE *out, int ranks);
/** Adds a timeline shifted by `offset` ns; `iteration` goes into the arguments of each event. */
sl_status sl_trace_add(FILE *out, const sl_timeline *timeline, sl_time offset, int iteration);
sl_status sl_trace_end(FILE *out);

#endif
