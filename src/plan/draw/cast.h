/* Text screens as one SVG picture that plays them like a recording of a terminal, again and again. Where
 * pictures do not move, or the reader asked for less motion, it is the last screen. */
#pragma once

#include "base/clock.h"
#include "base/status.h"
#include <stdio.h>

/* Lines that end with \n, in the colors of gantt_text.h. */
typedef struct sl_cast_screen {
    char *text;
    sl_time shown; /* how long */
} sl_cast_screen;

/** Draws `count` screens, at least one, with room for `columns` letters. Dark where the reader's system is.
 * SL_ESYS if `out` cannot be written. */
sl_status sl_draw_cast(const sl_cast_screen *screen, int count, int columns, FILE *out);
