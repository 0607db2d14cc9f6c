/* Comparing and summing up numbers. Plans and reports use medians, so that a few late wake-ups do not count.
 */
#pragma once

#include "base/time.h"
#include <stddef.h>

/* Times: sl_sooner and sl_later (base/time.h). */
static inline int sl_smaller(int a, int b) {
    return a < b ? a : b;
}
static inline int sl_larger(int a, int b) {
    return a > b ? a : b;
}
static inline size_t sl_larger_size(size_t a, size_t b) {
    return a > b ? a : b;
}

/** For qsort: the smallest first. */
int sl_ascending_times(const void *one, const void *other);
int sl_ascending_numbers(const void *one, const void *other);
int sl_ascending_ints(const void *one, const void *other);

/** The middle value (of an even count the larger one of the two), 0 for none. Sorts `values`. */
sl_time sl_median(sl_time *values, int count);

/** The same for numbers, but with the mean of the two for an even count, and NaN for none. Sorts `values`. */
double sl_median_of_numbers(double *values, int count);

/** The smallest value that `percentile` (0 to 100) of 100 values do not exceed, 0 for none. Sorts
 * `values`. */
sl_time sl_percentile(sl_time *values, int count, double percentile);
