/* Which points of a long series are drawn: few, but all its peaks and dips. */
#pragma once

#include <stddef.h>

/** Ascending indices of at most about `most` of `count` points into index[count]; returns how many. All of
 * them where they are no more; else of each piece of the series the first point, the lowest and the highest,
 * and the very last. NaN counts as no value. Never fails. */
size_t sl_downsample(const double *y, size_t count, size_t most, size_t *index);
