/* The long lists of a plan's JSON: ops, transfers, issues, and memory. A large plan has gigabytes of them, so
 * they are written directly, an entry per line, in the form that jansson gives the rest. */
#pragma once

#include "plan/search/plan.h"

/** As further members of an object that has some. A failed write is left in the state of `out`. SL_ENOMEM. */
sl_status sl_plan_write_lists(const sl_problem *problem, const sl_plan *plan, FILE *out);
