/* The receive buffers of ranks (regime fifo, problem file's `receive_buffers`): a receive has one from its
 * issue until the op that uses it has ended. */
#pragma once

#include "plan/lower/deadlock.h"

/** The first receive that finds all buffers of its rank in use: the rank, and its position among the rank's
 * issues; -1: there is none. SL_ENOMEM. */
sl_status sl_receive_buffers_find(const sl_problem *problem, const sl_program *program,
                                  const sl_issuer *issuer, int *rank, int *at);
/** SL_EINVAL names that receive, with its position in its file. SL_ENOMEM. */
sl_status sl_receive_buffers_check(const sl_cells *cells);
