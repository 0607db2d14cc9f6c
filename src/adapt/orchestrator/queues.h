/* How many delegates a link and direction needs (Adaptra, section 5.2): as many as carry messages away as
 * fast as the ops make them. A delegate that needs c for a message while one is made every p keeps up when
 * there are ceil(c / p) of them. */
#pragma once

#include "plan/pipeline/problem.h"

#define SL_QUEUES_MAX 8

/** ceil(consumption / production), from 1 to SL_QUEUES_MAX; production 0 or less: SL_QUEUES_MAX when
 * anything is consumed at all. */
int sl_queues_for(sl_time production, sl_time consumption);

/** The largest number that any link of `measured` needs: a message occupies it for the link's transfer time,
 * and one is made with every F (forwards) or I (backwards; B where the rank has no I) of the sending rank's
 * stages, at the pace of warm-up and cool-down, when nothing else is between. *from, *to: that link; -1: all
 * need one. */
int sl_queues_needed(const sl_problem *measured, int *from, int *to);
