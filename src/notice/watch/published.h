/* The data that the watch in charge of a job leaves in the store for viewers (slackline dashboard), in
 * addition to the logs of agents (notice/message/messages.h): the key `status`, the log `events`, and for a
 * minute after the job's end the key `reported`. All are JSON, as in /status.json and events.jsonl. Losing
 * any of it is harmless. */
#pragma once

#include "base/event.h"
#include "notice/control/job_status.h"
#include "notice/store/store.h"

#define SL_PUBLISHED_STATUS "status"
#define SL_PUBLISHED_EVENTS "events"
#define SL_PUBLISHED_END "reported"
#define SL_PUBLISHED_LASTS (10 * SL_SECOND) /* a status that is not renewed */
#define SL_PUBLISHED_KEEP 1024              /* events */

/** The status, and `program` (the watched one). Failures are ignored. */
void sl_published_status_put(sl_store *store, const sl_status_view *view, const char *program);
void sl_published_event_put(sl_store *store, const sl_event *event);

/** After sl_store_forget: {"exit_code": N}, empty if unknown (-1). */
void sl_published_end_put(sl_store *store, int exit_code, sl_time lasts);
