#include "plan/draw/highlight.h"
#include "base/memory.h"

void sl_highlight_free(sl_highlight *h) {
    SL_FREE(h->path, h->span, h->transfer, h->collective);
    *h = (sl_highlight){0};
}

sl_status sl_highlight_make(const sl_problem *problem, const sl_program *program, const sl_timeline *t,
                            sl_highlight *h) {
    *h = (sl_highlight){0};
    SL_TRY(sl_alloc(&h->path, (size_t)t->spans + (size_t)t->transfers + (size_t)t->collectives,
                    sizeof *h->path));
    SL_TRY(sl_alloc(&h->span, (size_t)t->spans, 1));
    SL_TRY(sl_alloc(&h->transfer, (size_t)t->transfers, 1));
    SL_TRY(sl_alloc(&h->collective, (size_t)t->collectives, 1));
    h->length = sl_critical_path(problem, program, t, h->path);
    for (int k = 0; k < h->length; k++) {
        int32_t entry = h->path[k];
        if (entry < 0) {
            h->transfer[-1 - entry] = 1;
        } else if (entry >= t->spans) {
            h->collective[entry - t->spans] = 1;
        } else {
            h->span[entry] = 1;
            if (t->span[entry].op.paired)
                h->span[entry + 1] = 1;
            else if (entry > 0 && t->span[entry - 1].op.paired)
                h->span[entry - 1] = 1;
        }
    }
    return SL_OK;
}

static sl_time start_of(const sl_timeline *t, int32_t entry) {
    if (entry < 0)
        return t->transfer[-1 - entry].start;
    return entry < t->spans ? t->span[entry].start : t->collective[entry - t->spans].start;
}

sl_time sl_highlight_until(const sl_timeline *t, const sl_highlight *h, int index) {
    if (index + 1 < h->length)
        return start_of(t, h->path[index + 1]);
    int32_t last = h->path[index];
    if (last < 0)
        return t->transfer[-1 - last].arrive;
    return last < t->spans ? t->span[last].end : t->collective[last - t->spans].end;
}
