/* A rank's reductions, concurrent with its ops: a thread that sums the gradients of a stage over the
 * replicas, and takes their sums of squares, as soon as the stage's last W has ended, while the pipeline
 * continues with other stages.
 *
 * Stages go in descending order on every rank, whatever the schedule, so that all replicas of a rank, whose
 * schedules may differ, enter the same collectives in the same order; the last stage's W ends first in every
 * family anyway. Two words carry it: `ready` counts stages whose W has ended (written by the rank, after
 * ended[]), `done` the summed ones (written by the thread, after begun[] and over[]), stored with release and
 * loaded with acquire. If MPI allows only one thread, the sums are made when the rank asks for the end. Real
 * clock only. */
#pragma once

#include "base/clock.h"
#include "base/status.h"

typedef struct sl_reducer sl_reducer;

/* Sums stage number `index` of this rank; runs on the reducer's thread. */
typedef sl_status (*sl_reducer_sum)(void *object, int index);

typedef struct sl_reduction {
    sl_time start, end; /* 0: none */
} sl_reduction;

/** `stages` held by this rank, numbered ascending; `threaded` 0: no thread. SL_ENOMEM, SL_ESYS. */
sl_status sl_reducer_open(int stages, int threaded, sl_reducer_sum sum, void *object, sl_reducer **reducer);
/** Ends the thread if it is waiting. 0: after a failure it is inside a sum that the others may never enter,
 * so it is left running until the process ends, and its memory must stay. NULL is fine. */
int sl_reducer_close(sl_reducer *reducer);

/** An iteration begins: nothing is ready. */
void sl_reducer_begin(sl_reducer *reducer);
/** The last W of stage `index` has ended at `end`. */
void sl_reducer_ready(sl_reducer *reducer, int index, sl_time end);
/** Sleeps until all are summed; times[stages]. The error of a failed sum. */
sl_status sl_reducer_finish(sl_reducer *reducer, sl_reduction *times);
