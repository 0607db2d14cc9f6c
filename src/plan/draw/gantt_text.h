/* A timeline as a Gantt chart for the terminal. */
#pragma once

#include "plan/timing/timeline.h"
#include <stdio.h>

typedef struct sl_text_options {
    int width;  /* columns of the terminal, at least 40 */
    int colour; /* ANSI colors in addition to the letters */
} sl_text_options;

/** One row per rank: F, I, W or B at the start of an op, then its microbatch's last digits and dashes until
 * its end, dots while the rank is idle (blanks in color); a time axis below. If ranks hold two stages, small
 * letters mark the second; if they hold more, a letter for the stage follows that of the op. Parts, pairs and
 * collectives have their own signs, explained below the axis if they occur. No line is longer than `width`
 * (at most 500). SL_ENOMEM; SL_ESYS if `out` cannot be written. */
sl_status sl_draw_text(const sl_timeline *timeline, const sl_text_options *options, FILE *out);
