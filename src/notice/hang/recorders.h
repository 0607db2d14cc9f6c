/* What PyTorch and NCCL record themselves of a job that hangs, collected by a thread of its own, because
 * others are waited for: the flight recorder of each of the node's processes (from its debug server, else
 * from a dump that it has written since it stalled, after a word through its pipe if it has one), and the
 * answer of NCCL's RAS service, if it is of this job: others on the node may listen at the same port.
 *
 * Where these are is in the environment of the processes (TORCH_FR_DUMP_TEMP_FILE,
 * TORCH_NCCL_DEBUG_INFO_PIPE_FILE, TORCH_WORKER_SERVER_SOCKET, NCCL_RAS_ADDR). Processes that run neither are
 * only looked at. */
#pragma once

#include "notice/hang/diagnosis.h"

typedef struct sl_hang_recorders sl_hang_recorders;

/** Starts to collect for the processes in `job` (rank, pid, still_s). `wake`: whether those that have a pipe
 * are asked to dump. SL_ENOMEM, SL_ESYS. */
sl_status sl_hang_recorders_start(const sl_hang_job *job, int wake, sl_hang_recorders **recorders);

/** Whether it has ended; it does within 10 s or so. */
int sl_hang_recorders_done(const sl_hang_recorders *recorders);

/** When it has ended: what came, as jobs; empty if nothing did. They are the caller's. */
void sl_hang_recorders_take(sl_hang_recorders *recorders, sl_hang_job *torch, sl_hang_job *ras);

/** Waits for the thread's end. NULL does nothing. */
void sl_hang_recorders_close(sl_hang_recorders *recorders);

/** Joins what a recorder shows of a job with the verdict by the calls that slackline has seen itself, in
 * *own. It replaces a verdict that says less, if all ranks wait and all are recorded; otherwise it is added
 * as evidence. `name` is the recorder's. *recorded (of cause SL_HANG_NOTHING before) gets its own verdict.
 * SL_ENOMEM. */
sl_status sl_hang_recorders_join(const sl_hang_job *job, double least_s, sl_hang_job *from, const char *name,
                                 sl_hang_verdict *own, sl_hang_verdict *recorded);
