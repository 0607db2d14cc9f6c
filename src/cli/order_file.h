/* Orders and plans in files, also compressed with gzip. */
#pragma once

#include "plan/pipeline/order.h"
#include "plan/search/plan_memory.h"
#include "plan/search/plan_read.h"

/** Any order of a file ("-": standard input): CSV (plan/lower/written.h), a form of another framework
 * (plan/export/order_table.h), or a plan's JSON (plan/search/plan_read.h), which is read as a stream. Errors
 * as theirs. Free with sl_order_free. */
sl_status sl_order_file_read(const char *file, const sl_problem *problem, sl_order *order);

/** A plan's JSON in a file, as sl_plan_reader_end. */
sl_status sl_plan_file_read(const char *file, sl_timeline *timeline, sl_plan_memory *memory,
                            char schedule[SL_PLAN_NAME]);
