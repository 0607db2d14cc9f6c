/* Several charts of plan/draw/chart.h as one picture, one below the other. */
#pragma once

#include "base/status.h"
#include "plan/draw/style.h"

/** `text`: `count` pictures, written by sl_draw_chart or sl_draw_bars with this style; a single one is
 * written unchanged. SL_ESYS. */
sl_status sl_draw_stack(char *const *text, int count, const sl_draw_style *style, FILE *out);
