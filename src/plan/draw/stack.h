/* Several charts of plan/draw/chart.h as one picture, one below the other. */
#pragma once

#include "base/status.h"
#include "plan/draw/style.h"

/** `text` are `count` pictures as sl_draw_chart and sl_draw_bars write them with this style; one is written
 * as it is. SL_ESYS. */
sl_status sl_draw_stack(char *const *text, int count, const sl_draw_style *style, FILE *out);
