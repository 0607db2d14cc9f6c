/* The only timeline type: start and end of each op and transfer, predicted by the replay or measured by the
 * engine. All code that draws, compares or learns from a run reads it. Times are ns from the iteration's
 * start. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "plan/pipeline/op.h"

typedef struct sl_span {
    int32_t rank;
    sl_op op;
    sl_time start, end;
} sl_span;

typedef struct sl_transfer {
    int32_t from, to;           /* ranks */
    sl_op op;                   /* the op that produced the message */
    sl_time start, end, arrive; /* enters the link, leaves it, is usable on `to` */
} sl_transfer;

typedef struct sl_timeline {
    int measured; /* 0: predicted */
    int ranks;
    int spans, transfers, collectives;
    sl_span *span;         /* by rank, then in the rank's order; two of a pair have the same times */
    sl_transfer *transfer; /* in program message order when predicted */
    int32_t *cause; /* fifo: what let transfer t start, [2 * t], and what its receive waited for after it had
                       come, [2 * t + 1]; entries of critical.h. Else NULL */
    sl_span *collective; /* parallel to the ops: gathers, then reductions (microbatch -1), each by rank,
                            then start; then moves to host memory and back, by rank, in order; their part: 0
                              between F and I or B, 1 between I and W */
} sl_timeline;

/** Whether a span is one of two that run as a pair. */
static inline int sl_timeline_is_paired(const sl_timeline *timeline, int span) {
    return timeline->span[span].op.paired || (span > 0 && timeline->span[span - 1].op.paired);
}

/** No collectives. */
sl_status sl_timeline_make(int ranks, int spans, int transfers, sl_timeline *timeline);
void sl_timeline_free(sl_timeline *timeline);

/** From the first F, which is stage 0's (of two pipelines, that of either first stage), to the last op or
 * reduction (CrossPipe, appendix A); 0 if empty. */
sl_time sl_timeline_makespan(const sl_timeline *timeline);
/** The last end of an op or collective; 0 if empty. */
sl_time sl_timeline_end(const sl_timeline *timeline);
/** Largest over ranks of last end - first start of its ops (Zero Bubble's cost). */
sl_time sl_timeline_span(const sl_timeline *timeline);
/** 1 - work / (ranks * makespan). */
double sl_timeline_bubble(const sl_timeline *timeline);
/** Time that a rank is busy with ops: a pair counts once. */
sl_time sl_timeline_work(const sl_timeline *timeline, int rank);
/** The same for all ranks, into work[ranks]. */
void sl_timeline_works(const sl_timeline *timeline, sl_time *work);
