#include "plan/family/moments.h"
#include "base/memory.h"

static int earlier(const sl_moment *a, const sl_moment *b) {
    return a->time != b->time ? a->time < b->time : a->rank < b->rank;
}

sl_status sl_moments_add(sl_moments *m, sl_time time, int rank) {
    SL_TRY(sl_grow(&m->heap, &m->capacity, m->count + 1, sizeof *m->heap));
    size_t i = m->count++;
    sl_moment added = {.time = time, .rank = rank};
    for (; i > 0 && earlier(&added, &m->heap[(i - 1) / 2]); i = (i - 1) / 2)
        m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = added;
    return SL_OK;
}

sl_moment sl_moments_take(sl_moments *m) {
    sl_moment top = m->heap[0], last = m->heap[--m->count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < m->count; i = child) {
        if (child + 1 < m->count && earlier(&m->heap[child + 1], &m->heap[child]))
            child++;
        if (!earlier(&m->heap[child], &last))
            break;
        m->heap[i] = m->heap[child];
    }
    m->heap[i] = last;
    return top;
}

void sl_moments_free(sl_moments *m) {
    sl_free(m->heap);
    *m = (sl_moments){0};
}
