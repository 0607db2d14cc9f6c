/* Memory of a problem in integers, as the exact solver needs it. */
#pragma once

#include "plan/pipeline/problem.h"

typedef struct sl_exact_change {
    int64_t forward, early, input, weight; /* F and I at their start, I and W at their end */
} sl_exact_change;

typedef struct sl_exact_memory {
    sl_exact_change *change; /* [stages] */
    int64_t *limit;          /* [ranks] */
    int exact;               /* 0: rounded to the safe side: within these limits is within the problem's */
} sl_exact_memory;

/** `problem` has limits. Limits include the relative allowance of 1e-9 that the check of plans uses. Free
 * with sl_exact_memory_free, also on error. */
sl_status sl_exact_memory_make(const sl_problem *problem, sl_exact_memory *memory);
void sl_exact_memory_free(sl_exact_memory *memory);
