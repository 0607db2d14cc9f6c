/* The critical path of a plan, for charts, looked up by op and message. */
#pragma once

#include "plan/timing/critical.h"

typedef struct sl_highlight {
    int32_t *path; /* sl_critical_path */
    int length;
    unsigned char *span, *transfer, *collective; /* whether each is on the path, both of a pair */
} sl_highlight;

/** Of a predicted timeline. Free with sl_highlight_free, also on error. */
sl_status sl_highlight_make(const sl_problem *problem, const sl_program *program, const sl_timeline *timeline,
                            sl_highlight *highlight);
void sl_highlight_free(sl_highlight *highlight);

/** The time at which the path leaves its entry `index`: that entry's end, or before its arrival for a message
 * that only held its wire. */
sl_time sl_highlight_until(const sl_timeline *timeline, const sl_highlight *highlight, int index);
