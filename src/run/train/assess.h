/* The leader, after each iteration: turns the records of all ranks into each replica's timeline and
 * measurements, the orchestrator's actions (body.h), and the lines of the journal. */
#pragma once

#include "run/arrange/iterate.h"
#include "run/train/leader.h"

/** SL_ENOMEM. Close with sl_assess_close, also on error. */
sl_status sl_assess_open(sl_leader *leader);
void sl_assess_close(sl_leader *leader);

/** Turns the gathered data of an iteration that began at `begin` into measurements, events and the pending
 * line of the journal. */
sl_status sl_assess_iteration(sl_leader *leader, sl_rank_reports *all, int iteration, sl_time begin);

/** The sums over all iterations, for the summary: arrivals (valid until it is closed), ops, overruns. */
void sl_assess_sum(const sl_leader *leader, sl_summary *summary);
