/* Timelines as a Chrome trace (JSON object format) for Perfetto and chrome://tracing: one process per rank
 * with its ops, and tracks for each of its outgoing links with the transfers, from taking the link to
 * arrival; overlapping messages are on separate tracks (viewers require slices of a track to nest).
 *
 * A plan's trace shows more: each rank also has a thread of collectives; arrows connect the op that makes a
 * message to the one that waits for it; entries of the critical path have the category `critical`, and the
 * path itself is an additional process. */
#pragma once

#include "plan/draw/highlight.h"
#include <stdio.h>

/** Begins the file and names the tracks: a process for each rank of each replica, with a thread for its
 * reductions if there are several replicas. */
sl_status sl_trace_begin(FILE *out, int ranks, int replicas);
/** Adds a timeline shifted by `offset` ns; `iteration` goes into the arguments of each event. */
sl_status sl_trace_add(FILE *out, const sl_timeline *timeline, int replica, sl_time offset, int iteration);
sl_status sl_trace_end(FILE *out);

/** The whole file for one predicted timeline, from its begin. SL_ENOMEM; SL_ESYS if `out` cannot be
 * written. */
sl_status sl_trace_plan(const sl_problem *problem, const sl_program *program, const sl_timeline *timeline,
                        FILE *out);
