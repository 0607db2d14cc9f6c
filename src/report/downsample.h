/* Selects the points of a long series to draw: few, but all its peaks and dips. */
#pragma once

#include <stddef.h>

/** Ascending indices of at most about `most` of `count` points into index[count]; returns their number. All
 * of them if they are no more; else the first, lowest and highest point of each piece of the series, and the
 * very last. NaN counts as no value. Never fails. */
size_t sl_downsample(const double *y, size_t count, size_t most, size_t *index);
