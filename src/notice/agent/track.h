/* The iterations of one process, followed through the calls of its threads.
 *
 * Each thread's calls go through a tracker of detect/period.h twice: as they are, and without their bytes,
 * for programs whose messages change their size from one iteration to the next. Of all these the one that
 * explains most calls is followed; calls as they are count a fifth more, because without bytes a loop inside
 * an iteration looks like the iteration. Calls whose number is a matter of chance (the Test family, Waitsome,
 * probes that found something) are no part of the sequence.
 *
 * Iterations shorter than 50 ms are joined: a block is one iteration, or as many as it takes to fill that
 * time, so that what a scheduler does to one iteration and not to the next is averaged.
 */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "notice/record/call.h"

#define SL_TRACK_BLOCK (50 * SL_MS)

typedef struct sl_track sl_track;

typedef struct sl_track_block {
    int64_t start, end; /* ns, the node's clock: first call of the first, end of the last iteration */
    int64_t time;       /* of its iterations, without what came between them */
    int64_t number;     /* of its first iteration, from 0 */
    int32_t count;      /* iterations */
    int32_t period;     /* calls in an iteration */
    int64_t bytes;      /* of its calls, and of what came between the iterations */
} sl_track_block;

/** SL_ENOMEM. */
sl_status sl_track_open(sl_track **track);
void sl_track_close(sl_track *track);

/** One record of the process, of each thread in order; a gap in its numbers interrupts what is followed,
 * other kinds than calls only count for that. SL_ENOMEM. */
sl_status sl_track_add(sl_track *track, const sl_call *call);

/** The next block, each once; 0 when there is none. Numbers begin anew when the period changes. */
int sl_track_take(sl_track *track, sl_track_block *block);

/** Calls in an iteration; 0: not known yet. */
int sl_track_period(const sl_track *track);
