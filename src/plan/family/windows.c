#include "plan/family/windows.h"
#include "base/memory.h"

#include <string.h>

/* Drops past windows, and moves the rest down before the array would grow. */
static void forget(sl_windows *w, sl_time now) {
    while (w->first < w->count && w->taken[w->first].end <= now)
        w->first++;
    if (w->count < w->capacity || w->first == 0)
        return;
    w->count -= w->first;
    memmove(w->taken, w->taken + w->first, w->count * sizeof *w->taken);
    w->first = 0;
}

static sl_status insert(sl_windows *w, size_t at, sl_window added) {
    SL_TRY(sl_grow(&w->taken, &w->capacity, w->count + 1, sizeof *w->taken));
    memmove(w->taken + at + 1, w->taken + at, (w->count - at) * sizeof *w->taken);
    w->taken[at] = added;
    w->count++;
    return SL_OK;
}

sl_status sl_windows_book(sl_windows *w, sl_time now, sl_time ready, sl_time length, sl_time *end) {
    sl_time start = ready;
    forget(w, now);
    size_t at = w->first;
    for (; at < w->count && start + length > w->taken[at].start; at++)
        start = w->taken[at].end > start ? w->taken[at].end : start;
    *end = start + length;
    if (length == 0)
        return SL_OK;
    int joins_before = at > w->first && w->taken[at - 1].end == start,
        joins_after = at < w->count && w->taken[at].start == *end;
    if (joins_before && joins_after) { /* windows that touch are merged, so few remain to be searched */
        w->taken[at - 1].end = w->taken[at].end;
        memmove(w->taken + at, w->taken + at + 1, (--w->count - at) * sizeof *w->taken);
    } else if (joins_before) {
        w->taken[at - 1].end = *end;
    } else if (joins_after) {
        w->taken[at].start = start;
    } else {
        return insert(w, at, (sl_window){.start = start, .end = *end});
    }
    return SL_OK;
}

void sl_windows_free(sl_windows *w) {
    sl_free(w->taken);
    *w = (sl_windows){0};
}
