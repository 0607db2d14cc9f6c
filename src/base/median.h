/* The median, used by plans and reports because a few late wake-ups must not count. */
#pragma once

#include "base/time.h"

/** For qsort: the least first. */
int sl_ascending_times(const void *one, const void *other);
int sl_ascending_numbers(const void *one, const void *other);

/** The middle value (of an even count the larger one of the two), 0 for none. Sorts `values`. */
sl_time sl_median(sl_time *values, int count);

/** The same of numbers, but of an even count the mean of the two, and NaN for none. Sorts `values`. */
double sl_median_of_numbers(double *values, int count);

/** The least value that `percentile` (0 to 100) of 100 values do not exceed, 0 for none. Sorts `values`. */
sl_time sl_percentile(sl_time *values, int count, double percentile);
