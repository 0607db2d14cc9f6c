/* What the processes of a node do: from their gates and rings (notice/record/probe_folder.h), read only when
 * a process has made no call for long. Costs a pass over the channels in use per look.
 *
 * Gates stay mapped after the agent has removed the files of a process that ended, so its last calls are
 * still known when the others wait for it. */
#pragma once

#include "base/time.h"
#include "notice/hang/job.h"

typedef struct sl_hang_look sl_hang_look;

/** `folder` of the node's rings and gates, which need not exist yet; `host` names the node. Both are copied.
 * SL_ENOMEM. */
sl_status sl_hang_look_open(const char *folder, const char *host, sl_hang_look **look);
void sl_hang_look_close(sl_hang_look *look);

/** Looks at all processes at `now` (CLOCK_MONOTONIC). Returns how long the one that is stalled longest has
 * made no call, in ns; 0: all of them have ended, or there is none. */
sl_time sl_hang_look_step(sl_hang_look *look, sl_time now);

/** Whether any process that was seen has not ended. */
int sl_hang_look_lives(const sl_hang_look *look);

/** All processes as ranks, added to *job. `samples`: their frames are sampled, once for each
 * state of a thread. SL_ENOMEM. */
sl_status sl_hang_look_ranks(sl_hang_look *look, sl_time now, int samples, sl_hang_job *job);
