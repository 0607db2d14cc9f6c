/* Several charts of plan/draw/chart.h as one picture, one below the other. */
#pragma once

#include "base/status.h"
#include "plan/draw/style.h"

/** `part`: `count` pictures, written by sl_draw_chart or sl_draw_bars with this style, each as a part.
 * SL_ESYS. */
sl_status sl_draw_stack(const sl_svg_part *part, int count, const sl_draw_style *style, FILE *out);
