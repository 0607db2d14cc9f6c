/* Memory over a timeline. */
#include "base/memory.h"
#include "plan/timing/replay.h"

#include <stdlib.h>

typedef struct change {
    sl_time time;
    double bytes;
} change;

/* In time; at the same instant what releases comes first. */
static int compare_changes(const void *a, const void *b) {
    const change *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

sl_status sl_peak_memory(const sl_problem *problem, const sl_timeline *timeline, double *peak) {
    change *changes;
    SL_TRY(sl_alloc(&changes, 2 * (size_t)timeline->spans, sizeof *changes));
    for (int rank = 0; rank < timeline->ranks; rank++)
        peak[rank] = 0;
    for (int i = 0; i < timeline->spans;) {
        int rank = timeline->span[i].rank;
        size_t count = 0;
        for (; i < timeline->spans && timeline->span[i].rank == rank; i++) {
            const sl_span *span = &timeline->span[i];
            double taken = sl_problem_start_memory(problem, &span->op),
                   given = sl_problem_end_memory(problem, &span->op);
            if (taken != 0)
                changes[count++] = (change){.time = span->start, .bytes = taken};
            if (given != 0)
                changes[count++] = (change){.time = span->end, .bytes = given};
        }
        qsort(changes, count, sizeof *changes, compare_changes);
        double used = 0;
        for (size_t k = 0; k < count; k++) {
            used += changes[k].bytes;
            peak[rank] = used > peak[rank] ? used : peak[rank];
        }
    }
    sl_free(changes);
    return SL_OK;
}
