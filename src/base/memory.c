#include "base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local long fail_at = -1; /* tests: allocations until one fails */

static int fault_due(void) {
    return fail_at >= 0 && fail_at-- == 0;
}

void sl_alloc_fail_at(long n) {
    fail_at = n;
}

sl_status sl_alloc(void *pointer, size_t count, size_t size) {
    void *memory =
        fault_due() ? NULL : calloc(count ? count : 1, size ? size : 1); /* calloc checks the product */
    memcpy(pointer, &memory, sizeof memory);
    if (!memory)
        return sl_error(SL_ENOMEM, "out of memory: %zu objects of %zu bytes", count, size);
    return SL_OK;
}

sl_status sl_grow(void *pointer, size_t *capacity, size_t count, size_t size) {
    if (count <= *capacity)
        return SL_OK;
    size_t wanted = *capacity < 8 ? 8 : *capacity;
    while (wanted < count)
        wanted = wanted > SIZE_MAX / 2 ? count : wanted * 2;
    if (size && wanted > SIZE_MAX / size)
        return sl_error(SL_ENOMEM, "out of memory: %zu objects of %zu bytes", wanted, size);
    void *old, *memory;
    memcpy(&old, pointer, sizeof old);
    memory = fault_due() ? NULL : realloc(old, wanted * size);
    if (!memory)
        return sl_error(SL_ENOMEM, "out of memory: %zu objects of %zu bytes", wanted, size);
    memset((char *)memory + *capacity * size, 0, (wanted - *capacity) * size);
    memcpy(pointer, &memory, sizeof memory);
    *capacity = wanted;
    return SL_OK;
}

sl_status sl_copy_text(char **copy, const char *text) {
    size_t size = strlen(text) + 1;
    char *memory;
    SL_TRY(sl_alloc(&memory, size, 1));
    memcpy(memory, text, size);
    *copy = memory;
    return SL_OK;
}

void sl_free(void *pointer) {
    free(pointer);
}

void sl_free_each(void *const *pointers, size_t count) {
    for (size_t i = 0; i < count; i++)
        sl_free(pointers[i]);
}
