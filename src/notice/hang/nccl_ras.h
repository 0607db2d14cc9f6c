/* The answer of NCCL's RAS service in JSON (ncclras --format json, NCCL 2.24 and later): how many operations
 * each rank of a communicator has launched, and which ranks do not answer. Ranks are the communicator's. */
#pragma once

#include "notice/hang/job.h"

/** Whether it is such an answer. */
int sl_nccl_ras_is(const json_t *json);

/** Adds the ranks of one communicator: the largest whose ranks differ, else the largest. SL_EINVAL: there is
 * none. SL_ENOMEM. */
sl_status sl_nccl_ras_add(const char *name, const json_t *json, sl_hang_job *job);

/** Asks the service at "HOST:PORT" (NCCL's default: 127.0.0.1:28028) for its answer in JSON, in *answer (free
 * with sl_free). Waits `seconds` at most for each step. SL_EPEER: nothing listens there, or it answers
 * otherwise. SL_EINVAL, SL_ENOMEM. */
sl_status sl_nccl_ras_ask(const char *address, int seconds, char **answer, size_t *size);
