/* The iterations of one process, followed through the calls of its threads.
 *
 * Each thread's calls go through a tracker of period.h twice: as they are, and without their bytes,
 * for programs whose messages change size between iterations. The tracker that explains most calls is
 * followed; calls with bytes count a fifth more, because without bytes a loop inside an iteration looks like
 * the iteration. Calls with a random count (the Test family, Waitsome, probes that found something) are not
 * part of the sequence.
 *
 * Short iterations are joined: a block is one iteration, or as many as fill 50 ms. This averages out what the
 * scheduler does to single iterations. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "notice/record/call.h"

#define SL_TRACK_BLOCK (50 * SL_MS)

typedef struct sl_track sl_track;

typedef struct sl_track_block {
    int64_t start, end; /* ns, the node's clock: first call of the first, end of the last iteration */
    int64_t time;       /* of its iterations, without the time between them */
    int64_t number;     /* of its first iteration, from 0 */
    int32_t count;      /* iterations */
    int32_t period;     /* calls per iteration */
    int64_t bytes;      /* of its calls, and of those between the iterations */
} sl_track_block;

/** SL_ENOMEM. */
sl_status sl_track_open(sl_track **track);
void sl_track_close(sl_track *track);

/** Adds one record of the process, of each thread in order; a gap in its numbers interrupts the iteration,
 * and records other than calls count only for that. SL_ENOMEM. */
sl_status sl_track_add(sl_track *track, const sl_call *call);

/** The next block, each once; 0 if there is none. Numbers restart when the period changes. */
int sl_track_take(sl_track *track, sl_track_block *block);

/** Calls per iteration; 0: not yet known. */
int sl_track_period(const sl_track *track);
