/* Clocks of nodes: whether two share one, and how far they are apart otherwise.
 *
 * Processes of one machine that was started once share CLOCK_MONOTONIC, whatever containers and network
 * namespaces they live in: their clocks have one identity, and the offset is 0 without an error. Otherwise
 * the controller asks and the agent answers, a few times in a row, both waiting at the store meanwhile, and
 * the shortest round trip bounds the error (notice/record/offset.h). */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "notice/record/offset.h"
#include "notice/store/store.h"
#include <stddef.h>

#define SL_CLOCK_TRIPS 16               /* of one session */
#define SL_CLOCK_PATIENCE (300 * SL_MS) /* of one session, on either side */

/** A text that is alike exactly where CLOCK_MONOTONIC is; "" when the system does not say. */
void sl_clock_identity(char *identity, size_t size);

/** The agent's side: answers what is asked of `node` in this round, until it was asked for the last time or
 * patience is over. SL_EPEER. */
sl_status sl_clock_answer(sl_store *store, const char *node, int64_t round);

/** The controller's side, after the agent was told to answer: adds round trips to the estimate (their clock -
 * ours). SL_EPEER. */
sl_status sl_clock_ask(sl_store *store, const char *node, int64_t round, sl_offset *estimate);
