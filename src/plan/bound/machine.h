/* One machine: the bound of plan/bound/bound.h on a rank, a wire, a communicator, or a rank's memory. */
#pragma once

#include "base/time.h"

/* Jobs that follow each other: heads ascend and tails descend. */
typedef struct sl_job_chain {
    const sl_time *head, *tail;
    sl_time before, time, after; /* added to the head; on the machine; added to the tail */
    int next, count;
    sl_time left; /* of the first one */
} sl_job_chain;

/** Longest end + tail of Jackson's schedule: a job with a longer tail preempts the running one when it comes.
 * It is a bound for every schedule of the machine. The chains are used up. */
sl_time sl_preemptive_bound(sl_job_chain *chains, int count);
