/* Which of its rank's stages a stage is: charts shade or letter them apart where a rank holds several. */
#pragma once

#include "plan/timing/timeline.h"

typedef struct sl_chunks {
    int stages; /* one more than the highest stage that the timeline shows */
    int most;   /* stages on one rank, at most; 1 or 0 where nothing need be told apart */
    int *of;    /* [stages] 0 for the lowest stage of its rank */
} sl_chunks;

/** SL_ENOMEM. Free with sl_chunks_free. */
sl_status sl_chunks_make(const sl_timeline *timeline, sl_chunks *chunks);
void sl_chunks_free(sl_chunks *chunks);
