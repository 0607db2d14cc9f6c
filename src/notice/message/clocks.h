/* Clocks of nodes: whether two share one, and their offset otherwise.
 *
 * Processes of one machine since its start share CLOCK_MONOTONIC, in any containers and network namespaces:
 * their clocks have one identity, and the offset is 0 without an error. Otherwise the controller asks and the
 * agent answers, a few times in a row, while both wait at the store; the shortest round trip bounds the error
 * (notice/record/offset.h). */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "notice/record/offset.h"
#include "notice/store/store.h"
#include <stddef.h>

#define SL_CLOCK_TRIPS 16               /* per session */
#define SL_CLOCK_PATIENCE (300 * SL_MS) /* per session, on either side */

/** A text that is equal for two nodes exactly if they share CLOCK_MONOTONIC; "" if the system does not
 * provide one. */
void sl_clock_identity(char *identity, size_t size);

/** The agent's side: answers the requests to `node` in this round, until the last one or until patience runs
 * out. SL_EPEER. */
sl_status sl_clock_answer(sl_store *store, const char *node, int64_t round);

/** The controller's side, after the agent was ordered to answer: adds round trips to the estimate (their
 * clock - ours). SL_EPEER. */
sl_status sl_clock_ask(sl_store *store, const char *node, int64_t round, sl_offset *estimate);
