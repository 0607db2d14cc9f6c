/* A timeline as a Gantt chart for the terminal. */
#pragma once

#include "plan/timing/timeline.h"
#include <stdio.h>

typedef struct sl_text_options {
    int width;  /* columns of the terminal, at least 40 */
    int colour; /* ANSI colors in addition to the letters */
} sl_text_options;

/** One row a rank: F, I, W or B where an op begins, then its microbatch's last digits and dashes as far as it
 * lasts, dots where the rank is idle (blanks in colour); a time axis below. Where ranks hold two stages small
 * letters are the second; of more a letter of the stage follows that of the op. Parts, pairs and collectives
 * have signs of their own, which lines below the axis explain where they occur. No line is longer than
 * `width` (at most 500). SL_ENOMEM; SL_ESYS if `out` cannot be written. */
sl_status sl_draw_text(const sl_timeline *timeline, const sl_text_options *options, FILE *out);
