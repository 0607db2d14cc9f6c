/* The plan that examples are made of: two ranks, three microbatches, 1f1b. */
#ifndef SL_TESTS_FUZZ_SMALL_PLAN_H
#define SL_TESTS_FUZZ_SMALL_PLAN_H

#include "fuzz.h"

#include "plan/search/plan.h"

#include <stdlib.h>

/** Free both. */
static inline void fuzz_small_plan(sl_problem *problem, sl_plan *plan) {
    fuzz_must(sl_problem_make(2, 2, 3, problem) == SL_OK);
    for (int stage = 0; stage < 2; stage++)
        for (int kind = SL_F; kind <= SL_B; kind++)
            problem->time[kind][stage] = kind == SL_B ? 2 * SL_MS : SL_MS;
    fuzz_must(sl_plan_make(problem, "1f1b", plan) == SL_OK);
}

#endif
