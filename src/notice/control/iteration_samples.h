/* The job's iteration times, from the iterations of its ranks.
 *
 * One rank is the reference: a sample is one of its blocks (notice/agent/track.h). From every other rank the
 * blocks that begin and end around the same time are taken. So ranks that lost iterations, that count from
 * another start, or whose period begins elsewhere in the loop are matched again at every block. The sample is
 * the median over ranks of the time of one iteration. A missing rank is waited for, but not for long. Ranks
 * more than 1.5 times as fast as the slowest follow a loop inside the iteration, and are left out. Pure:
 * blocks in, samples out; times of one clock. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "notice/message/messages.h"

#define SL_SAMPLES_WAIT SL_SECOND /* for ranks that lag */

typedef struct sl_iteration_samples sl_iteration_samples;

typedef struct sl_sample {
    int64_t iteration;  /* its first, by the reference rank's count, which continues when the period changes
                         */
    int count;          /* iterations */
    int period;         /* calls per iteration, on the reference rank */
    int ranks;          /* in the median */
    int restarted;      /* the period changed: no continuation */
    int64_t start, end; /* ns */
    double time_ms;     /* per iteration: median over ranks */
    double slowest_ms;
    double bytes; /* of the reference rank's calls, per iteration */
} sl_sample;

/** SL_ENOMEM. */
sl_status sl_iteration_samples_open(sl_iteration_samples **samples);
void sl_iteration_samples_close(sl_iteration_samples *samples);

/** Adds one block of a rank, its times already of the job's clock, seen at `now`. SL_ENOMEM. */
sl_status sl_iteration_samples_add(sl_iteration_samples *samples, const sl_message_block *block, sl_time now);

/** The rank will send no more (its process or node has ended). */
void sl_iteration_samples_lost(sl_iteration_samples *samples, int rank);

/** The next sample, each once; 0 if none is complete. */
int sl_iteration_samples_take(sl_iteration_samples *samples, sl_time now, sl_sample *sample);
