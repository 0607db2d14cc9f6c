/* What a run says between two iterations, through the journal and the progress line; on the rank that leads.
 */
#pragma once

#include "run/arrange/trainer_state.h"

/** Writes an event, of a replica where there are several (-1: of none), and says it. Its time is now where it
 * has none. */
sl_status sl_run_events_add(sl_trainer *t, sl_event *event, int replica);

/** Writes the pending line of metrics.jsonl, if there is one; its period ends at `next_begin`. */
sl_status sl_run_events_flush(sl_trainer *t, sl_time next_begin);

/** t->schedule, the name of what runs: replica 0's schedule, or all where they differ. */
void sl_run_events_name_schedule(sl_trainer *t);
