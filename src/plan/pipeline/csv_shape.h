/* The shape that an order in CSV form has: for checks without a problem file. */
#pragma once

#include "plan/pipeline/problem.h"

/** A problem whose ops and links take no time, with as many ranks as the file has lines, the stages and
 * microbatches of its ops, and the placement that puts each stage on its line. SL_EINVAL: no placement does,
 * or there is no op. Free with sl_problem_free. */
sl_status sl_csv_shape(const char *file, sl_problem *problem);
