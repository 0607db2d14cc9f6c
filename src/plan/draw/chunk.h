/* The index of a stage among its rank's stages, which charts distinguish by shades or letters if a rank holds
 * several. */
#pragma once

#include "plan/timing/timeline.h"

typedef struct sl_chunks {
    int stages; /* one more than the highest stage that the timeline shows */
    int most;   /* maximum of stages on one rank; 1 or 0: nothing to distinguish */
    int *of;    /* [stages] 0 for the lowest stage of its rank */
} sl_chunks;

/** SL_ENOMEM. Free with sl_chunks_free. */
sl_status sl_chunks_make(const sl_timeline *timeline, sl_chunks *chunks);
void sl_chunks_free(sl_chunks *chunks);
