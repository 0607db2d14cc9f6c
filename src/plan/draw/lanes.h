/* The messages of a timeline as lanes: one row per link with messages, more if messages of one link
 * overlap. */
#pragma once

#include "plan/timing/timeline.h"

/* A message on its lane. */
typedef struct sl_ride {
    int transfer, lane;
} sl_ride;

typedef struct sl_lanes {
    sl_ride *ride;            /* [rides] by lane, then start, without messages that take no time */
    const sl_transfer **lane; /* [lanes] a message of each, by its link; into the timeline */
    int rides, lanes;
} sl_lanes;

/** SL_ENOMEM. The timeline must outlive it. Free with sl_lanes_free, also on error. */
sl_status sl_lanes_make(const sl_timeline *timeline, sl_lanes *lanes);
void sl_lanes_free(sl_lanes *lanes);
