/* The call logs of `watch --record`: one CSV per thread of a rank, which `slackline detect` reads. */
#pragma once

#include "base/status.h"
#include "notice/agent/rings.h"

typedef struct sl_call_log sl_call_log;

/** Makes the folder. SL_ESYS, SL_ENOMEM. */
sl_status sl_call_log_open(const char *folder, sl_call_log **log);
/** Writes the rest and closes. NULL is fine. */
void sl_call_log_close(sl_call_log *log);

/** Adds calls of one ring; other kinds of records are left out. An error of a file is reported once and ends
 * it. SL_ENOMEM. */
sl_status sl_call_log_add(sl_call_log *log, const sl_ring_source *source, int rank, const sl_call *calls,
                          size_t count);

/** A process has ended: closes its files. */
void sl_call_log_end(sl_call_log *log, uint64_t process);

/** Writes all files up to now. */
void sl_call_log_flush(sl_call_log *log);
