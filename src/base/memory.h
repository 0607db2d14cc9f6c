/* Host memory: every allocation of the library goes through here and may fail, and tests make it fail.
 * Sizes are checked for overflow. Memory is zeroed. */
#pragma once

#include "base/status.h"
#include <stddef.h>

/** `count` zeroed objects of `size` bytes into *pointer (any object pointer, passed as `void *` to its
 * address). A count of 0 gives a valid pointer. SL_ENOMEM: *pointer is NULL. Free with
 * sl_free. */
sl_status sl_alloc(void *pointer, size_t count, size_t size);

/** Grows *pointer, an array of *capacity objects, to hold at least `count`; new objects are zeroed.
 *  On failure nothing has changed. */
sl_status sl_grow(void *pointer, size_t *capacity, size_t count, size_t size);

/** A copy of `text`. Free with sl_free. */
sl_status sl_copy_text(char **copy, const char *text);

void sl_free(void *pointer);

/** Several at once. */
#define SL_FREE(...) sl_free_each((void *[]){__VA_ARGS__}, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *))
void sl_free_each(void *const *pointers, size_t count);

/** Fault injection: the n-th allocation from now on this thread (0: the next) fails, once. Negative: none. */
void sl_alloc_fail_at(long n);
