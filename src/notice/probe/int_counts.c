#include "notice/probe/int_counts.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct copy {
    struct copy *next;
    int value[];
} copy;

static __thread copy *kept __attribute__((tls_model("initial-exec")));

const int *sl_narrowed(const void *counts, int count) {
    const int64_t *wide = counts;
    copy *made = wide ? malloc(sizeof *made + (size_t)count * sizeof made->value[0]) : NULL;
    if (!made)
        return NULL;
    for (int i = 0; i < count; i++)
        made->value[i] = wide[i] >= 0 && wide[i] <= INT_MAX ? (int)wide[i] : -1;
    made->next = kept;
    kept = made;
    return made->value;
}

void *sl_narrowed_take(void) {
    copy *all = kept;
    kept = NULL;
    return all;
}

void sl_narrowed_free(void *copies) {
    for (copy *next, *c = copies; c; c = next) {
        next = c->next;
        free(c);
    }
}
