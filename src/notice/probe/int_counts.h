/* Arrays of large counts as arrays of int, for a library that has no calls with large counts. They belong to
 * the thread until the call has returned, and those of a posted call to its request. */
#pragma once

/** A copy of `counts` (`count` values of 64 bits; NULL: NULL), kept by the thread. Values that do not fit are
 * -1. */
const int *sl_narrowed(const void *counts, int count);

/** All copies the thread keeps, for whoever frees them. */
void *sl_narrowed_take(void);

void sl_narrowed_free(void *copies);
