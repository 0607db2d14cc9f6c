/* A timeline as a Gantt chart for the terminal. */
#ifndef SL_PLAN_DRAW_TEXT_H
#define SL_PLAN_DRAW_TEXT_H

#include "plan/timing/timeline.h"
#include <stdio.h>

typedef struct sl_text_options {
    int width;  /* columns of the terminal, at least 40 */
    int colour; /* ANSI colours besides the letters */
} sl_text_options;

/** One row a rank: F, I, W, B for what runs (with the microbatch's last digits where there is room), dots where the rank
 *  is idle; a time axis below. SL_ESYS when `out` cannot be written. */
sl_status sl_draw_text(const sl_timeline *timeline, const sl_text_options *options, FILE *out);

#endif
