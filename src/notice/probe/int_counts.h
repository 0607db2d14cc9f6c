/* Arrays of large counts as arrays of int, for a library without calls with large counts. The thread owns
 * them until the call has returned; those of a posted call belong to its request. */
#pragma once

/** A copy of `counts` (`count` values of 64 bits; NULL: NULL), kept by the thread. Values that do not fit are
 * -1. */
const int *sl_narrowed(const void *counts, int count);

/** All copies that the thread keeps; ownership passes to the caller. */
void *sl_narrowed_take(void);

void sl_narrowed_free(void *copies);
