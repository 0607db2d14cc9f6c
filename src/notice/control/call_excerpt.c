#include "notice/control/call_excerpt.h"
#include "base/memory.h"

#include <stdlib.h>

void sl_call_excerpt_close(sl_call_excerpt *e) {
    sl_free(e->call);
    *e = (sl_call_excerpt){0};
}

static int is_timed(const sl_call *c) {
    return c->kind == SL_RECORD_CALL && c->rank >= 0 && c->start > 0 && c->end > c->start;
}

/* The start of the call of the lowest rank that is nearest to the profile's middle; -1: none is timed. */
static int64_t find_begin(const sl_call *call, size_t calls) {
    int64_t first = INT64_MAX, last = 0, begin = -1;
    int lowest = INT32_MAX;
    for (size_t i = 0; i < calls; i++)
        if (is_timed(&call[i])) {
            first = call[i].start < first ? call[i].start : first;
            last = call[i].end > last ? call[i].end : last;
            lowest = call[i].rank < lowest ? call[i].rank : lowest;
        }
    const int64_t middle = first / 2 + last / 2;
    for (size_t i = 0; i < calls; i++)
        if (is_timed(&call[i]) && call[i].rank == lowest &&
            (begin < 0 || llabs(call[i].start - middle) < llabs(begin - middle)))
            begin = call[i].start;
    return begin;
}

sl_status sl_call_excerpt_take(sl_call_excerpt *e, const sl_call *call, size_t calls, int64_t length,
                               int64_t iteration, int slow) {
    const int64_t begin = find_begin(call, calls), end = begin + length;
    if (begin < 0 || length <= 0)
        return SL_OK;
    if (!e->call)
        SL_TRY(sl_alloc(&e->call, SL_EXCERPT_CALLS, sizeof *e->call));
    e->calls = e->left_out = 0;
    for (size_t i = 0; i < calls; i++) {
        const sl_call *c = &call[i];
        if (!is_timed(c) || c->end <= begin || c->start >= end)
            continue;
        if (c->rank >= SL_EXCERPT_RANKS || e->calls == SL_EXCERPT_CALLS) {
            e->left_out++;
            continue;
        }
        const int64_t from = c->start > begin ? c->start : begin, to = c->end < end ? c->end : end;
        e->call[e->calls++] = (sl_excerpt_call){c->rank, c->call, from - begin, to - from};
    }
    e->length = length;
    e->iteration = iteration;
    e->slow = slow;
    return SL_OK;
}
