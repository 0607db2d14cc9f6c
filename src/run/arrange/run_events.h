/* The events of a run between two iterations, for the journal and the progress line; on the leader. */
#pragma once

#include "run/arrange/trainer_state.h"

/** Writes and prints an event, of a replica if there are several (-1: of none). Its time defaults to now. */
sl_status sl_run_events_add(sl_trainer *t, sl_event *event, int replica);

/** Writes the pending line of metrics.jsonl, if there is one; its period ends at `next_begin`. */
sl_status sl_run_events_flush(sl_trainer *t, sl_time next_begin);

/** Sets t->schedule, the name of the current schedule: replica 0's, or all if they differ. */
void sl_run_events_name_schedule(sl_trainer *t);
