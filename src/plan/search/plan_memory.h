/* What each rank holds over a plan's time, what lies there all the time counted: what a plan's JSON says, and
 * what a picture of memory shows. */
#pragma once

#include "plan/timing/replay.h"

typedef struct sl_plan_memory {
    sl_memory_step *step; /* by rank, then time */
    int *first;           /* [ranks + 1] steps of rank r are first[r] to first[r + 1] */
    double *always;       /* [ranks] what lies there from the beginning */
    double *limit;        /* [ranks] INFINITY: none for this one; NULL: no rank has one */
} sl_plan_memory;

/** Of a timeline of `problem`. SL_ENOMEM. Free with sl_plan_memory_free, also on error. */
sl_status sl_plan_memory_make(const sl_problem *problem, const sl_timeline *timeline, sl_plan_memory *memory);
/** Also of one that is all zero. */
void sl_plan_memory_free(sl_plan_memory *memory);
