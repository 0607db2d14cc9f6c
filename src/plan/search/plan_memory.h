/* Memory use of each rank over a plan's time, including permanent use, for a plan's JSON and for memory
 * charts. */
#pragma once

#include "plan/timing/replay.h"

typedef struct sl_plan_memory {
    sl_memory_step *step; /* by rank, then time */
    int *first;           /* [ranks + 1] steps of rank r are first[r] to first[r + 1] */
    double *always;       /* [ranks] permanent use */
    double *limit;        /* [ranks] INFINITY: none; NULL: no rank has one */
} sl_plan_memory;

/** Of a timeline of `problem`. SL_ENOMEM. Free with sl_plan_memory_free, also on error. */
sl_status sl_plan_memory_make(const sl_problem *problem, const sl_timeline *timeline, sl_plan_memory *memory);
/** Also accepts an all-zero struct. */
void sl_plan_memory_free(sl_plan_memory *memory);
