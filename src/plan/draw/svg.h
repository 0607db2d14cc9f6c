/* Timelines as an SVG picture: Gantt charts, one below the other on one time scale. */
#ifndef SL_PLAN_DRAW_SVG_H
#define SL_PLAN_DRAW_SVG_H

#include "plan/timing/timeline.h"
#include <stdio.h>

/** `count` timelines with their titles (any text; it is escaped). Colours tell F, I, W and B apart for
 * colour-blind readers and in grey print; boxes carry the microbatch where it fits; messages that take time
 * are thin lines. SL_ESYS when `out` cannot be written. */
sl_status sl_draw_svg(const sl_timeline *const *timelines, const char *const *titles, int count, FILE *out);

#endif
