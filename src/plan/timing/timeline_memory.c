/* Memory over a timeline. */
#include "base/memory.h"
#include "plan/timing/replay.h"

#include <stdlib.h>

typedef struct memory_change {
    sl_time time;
    double bytes;
} memory_change;

/* By time; at the same instant, releases come first. */
static int compare_changes(const void *a, const void *b) {
    const memory_change *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The moves of a rank from collective `at` on; returns the first that is another rank's. */
static int add_moves(const sl_problem *problem, const sl_timeline *timeline, int rank, int at,
                     memory_change *changes, size_t *count) {
    for (; at < timeline->collectives && timeline->collective[at].rank == rank; at++) {
        const sl_span *move = &timeline->collective[at];
        double size = sl_problem_kept(problem, move->op.stage, move->op.part);
        changes[(*count)++] = move->op.kind == SL_FETCH ? (memory_change){.time = move->start, .bytes = size}
                                                        : (memory_change){.time = move->end, .bytes = -size};
    }
    return at;
}

static int first_move(const sl_timeline *timeline) {
    int at = 0;
    while (at < timeline->collectives && timeline->collective[at].op.kind < SL_OFFLOAD)
        at++;
    return at;
}

void sl_peak_host(const sl_timeline *timeline, int *peak) {
    int rank = -1, held = 0; /* a rank's moves are contiguous and in order */
    for (int r = 0; r < timeline->ranks; r++)
        peak[r] = 0;
    for (int i = first_move(timeline); i < timeline->collectives; i++) {
        const sl_span *move = &timeline->collective[i];
        held = move->rank == rank ? held : 0;
        rank = move->rank;
        held += move->op.kind == SL_OFFLOAD ? 1 : -1;
        peak[rank] = held > peak[rank] ? held : peak[rank];
    }
}

/* Of the rank whose spans begin at *span and whose moves begin at *move, sorted; both advance to the next
 * rank's. */
static size_t changes_of(const sl_problem *problem, const sl_timeline *timeline, int rank, int *span,
                         int *move, memory_change *changes) {
    size_t count = 0;
    for (; *span < timeline->spans && timeline->span[*span].rank == rank; ++*span) {
        const sl_span *op = &timeline->span[*span];
        double taken = sl_problem_start_memory(problem, &op->op),
               given = sl_problem_end_memory(problem, &op->op);
        if (taken != 0)
            changes[count++] = (memory_change){.time = op->start, .bytes = taken};
        if (given != 0)
            changes[count++] = (memory_change){.time = op->end, .bytes = given};
    }
    *move = add_moves(problem, timeline, rank, *move, changes, &count);
    if (count > 0)
        qsort(changes, count, sizeof *changes, compare_changes);
    return count;
}

static sl_status make_changes(const sl_timeline *timeline, memory_change **changes) {
    return sl_alloc(changes, 2 * (size_t)timeline->spans + (size_t)timeline->collectives, sizeof **changes);
}

sl_status sl_peak_memory(const sl_problem *problem, const sl_timeline *timeline, double *peak) {
    memory_change *changes;
    int span = 0, move = first_move(timeline);
    SL_TRY(make_changes(timeline, &changes));
    for (int rank = 0; rank < timeline->ranks; rank++) {
        size_t count = changes_of(problem, timeline, rank, &span, &move, changes);
        double used = 0;
        peak[rank] = 0;
        for (size_t k = 0; k < count; k++) {
            used += changes[k].bytes;
            peak[rank] = used > peak[rank] ? used : peak[rank];
        }
    }
    sl_free(changes);
    return SL_OK;
}

/* A release followed by an acquisition at the same instant does not make a separate step. */
sl_status sl_memory_course(const sl_problem *problem, const sl_timeline *timeline, sl_memory_step **steps,
                           int *first) {
    memory_change *changes;
    int span = 0, move = first_move(timeline), made = 0;
    *steps = NULL;
    SL_TRY(make_changes(timeline, &changes));
    sl_status status =
        sl_alloc(steps, 2 * (size_t)timeline->spans + (size_t)timeline->collectives, sizeof **steps);
    for (int rank = 0; rank < timeline->ranks && status == SL_OK; rank++) {
        size_t count = changes_of(problem, timeline, rank, &span, &move, changes);
        double used = 0;
        first[rank] = made;
        for (size_t k = 0; k < count; k++) {
            used += changes[k].bytes;
            if (made > first[rank] && (*steps)[made - 1].time == changes[k].time)
                made--;
            (*steps)[made++] = (sl_memory_step){rank, changes[k].time, used};
        }
        first[rank + 1] = made;
    }
    sl_free(changes);
    return status;
}
