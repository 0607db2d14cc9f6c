/* The number of delegates per link and direction (Adaptra, section 5.2): enough to send messages as fast as
 * the ops produce them. If a delegate needs c per message and one is produced every p, ceil(c / p) delegates
 * keep up. More of them do not help where messages wait for the wire itself. */
#pragma once

#include "plan/pipeline/problem.h"

#define SL_QUEUES_MAX 8

/** ceil(consumption / production), from 1 to SL_QUEUES_MAX; production 0 or less: SL_QUEUES_MAX if
 * consumption is positive. */
int sl_queues_for(sl_time production, sl_time consumption);

/** The largest number that any link of `measured` needs, other than those with one lane. A message takes the
 * link's transfer time; every F (forward) or I (backward; B if the rank has no I) of the sending rank's
 * stages produces one, at the pace of warm-up and cool-down, without other ops between. *from, *to: that
 * link; -1: all need one. */
int sl_queues_needed(const sl_problem *measured, int *from, int *to);
