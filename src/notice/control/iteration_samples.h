/* The job's iteration times out of the iterations of its ranks.
 *
 * One rank is the reference: a sample is one of its blocks (notice/agent/track.h). Of every other rank the
 * blocks that begin and end around the same time are taken, so ranks that lost iterations, that count from
 * another beginning, or whose period begins elsewhere in the loop, meet again at every block. The sample is
 * the median over ranks of the time of one iteration. A rank that is missing is waited for, but not for long.
 * Ranks that go round faster than the slowest by a half and more follow a loop inside the iteration, and are
 * left out. Pure: blocks in, samples out; times of one clock. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "notice/message/messages.h"

#define SL_SAMPLES_WAIT SL_SECOND /* for ranks that are behind */

typedef struct sl_iteration_samples sl_iteration_samples;

typedef struct sl_sample {
    int64_t iteration;  /* its first, by the reference rank's count, which goes on when the period changes */
    int count;          /* iterations */
    int period;         /* calls of one, on the reference rank */
    int ranks;          /* that it is the median of */
    int anew;           /* the period changed: this is no continuation */
    int64_t start, end; /* ns */
    double time_ms;     /* of an iteration: median over ranks */
    double slowest_ms;
    double bytes; /* of the reference rank's calls in an iteration */
} sl_sample;

/** SL_ENOMEM. */
sl_status sl_iteration_samples_open(sl_iteration_samples **samples);
void sl_iteration_samples_close(sl_iteration_samples *samples);

/** One block of a rank, its times already of the job's clock, seen at `now`. SL_ENOMEM. */
sl_status sl_iteration_samples_add(sl_iteration_samples *samples, const sl_message_block *block, sl_time now);

/** The rank will send no more (its process or its node is gone). */
void sl_iteration_samples_lost(sl_iteration_samples *samples, int rank);

/** The next sample, each once; 0 when none is complete. */
int sl_iteration_samples_take(sl_iteration_samples *samples, sl_time now, sl_sample *sample);
