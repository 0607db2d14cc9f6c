#include "plan/timing/timeline.h"
#include "base/memory.h"

sl_status sl_timeline_make(int ranks, int spans, int transfers, sl_timeline *timeline) {
    *timeline = (sl_timeline){.ranks = ranks, .spans = spans, .transfers = transfers};
    SL_TRY(sl_alloc(&timeline->span, (size_t)spans, sizeof *timeline->span));
    sl_status status = sl_alloc(&timeline->transfer, (size_t)transfers, sizeof *timeline->transfer);
    if (status != SL_OK)
        sl_timeline_free(timeline);
    return status;
}

void sl_timeline_free(sl_timeline *timeline) {
    SL_FREE(timeline->span, timeline->transfer, timeline->cause, timeline->collective);
    *timeline = (sl_timeline){0};
}

sl_time sl_timeline_makespan(const sl_timeline *timeline) {
    sl_time first = SL_TIME_NEVER, last = 0;
    for (int i = 0; i < timeline->spans; i++) {
        const sl_span *span = &timeline->span[i];
        if (span->op.kind == SL_F && span->start < first)
            first = span->start;
        if (span->end > last)
            last = span->end;
    }
    for (int i = 0; i < timeline->collectives; i++)
        last = timeline->collective[i].end > last ? timeline->collective[i].end : last;
    return first == SL_TIME_NEVER ? 0 : last - first;
}

sl_time sl_timeline_end(const sl_timeline *timeline) {
    sl_time last = 0;
    for (int i = 0; i < timeline->spans; i++)
        last = sl_later(last, timeline->span[i].end);
    for (int i = 0; i < timeline->collectives; i++)
        last = sl_later(last, timeline->collective[i].end);
    return last;
}

sl_time sl_timeline_span(const sl_timeline *timeline) {
    sl_time longest = 0;
    for (int i = 0; i < timeline->spans;) { /* spans of a rank are contiguous */
        int rank = timeline->span[i].rank;
        sl_time first = timeline->span[i].start, last = timeline->span[i].end;
        for (; i < timeline->spans && timeline->span[i].rank == rank; i++) {
            first = timeline->span[i].start < first ? timeline->span[i].start : first;
            last = timeline->span[i].end > last ? timeline->span[i].end : last;
        }
        longest = last - first > longest ? last - first : longest;
    }
    return longest;
}

/* The second of a pair runs at the same time as the first. */
static sl_time busy(const sl_timeline *timeline, int i) {
    return i > 0 && timeline->span[i - 1].op.paired ? 0 : timeline->span[i].end - timeline->span[i].start;
}

sl_time sl_timeline_work(const sl_timeline *timeline, int rank) {
    sl_time work = 0;
    for (int i = 0; i < timeline->spans; i++)
        work += timeline->span[i].rank == rank ? busy(timeline, i) : 0;
    return work;
}

void sl_timeline_works(const sl_timeline *timeline, sl_time *work) {
    for (int rank = 0; rank < timeline->ranks; rank++)
        work[rank] = 0;
    for (int i = 0; i < timeline->spans; i++)
        work[timeline->span[i].rank] += busy(timeline, i);
}

double sl_timeline_bubble(const sl_timeline *timeline) {
    sl_time work = 0, makespan = sl_timeline_makespan(timeline);
    for (int i = 0; i < timeline->spans; i++)
        work += busy(timeline, i);
    return makespan > 0 ? 1 - (double)work / ((double)timeline->ranks * (double)makespan) : 0;
}
