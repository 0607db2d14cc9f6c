/* Queues: messages that came shortly after each other bound the transfer time T, waited for or not: none can
 * arrive before it has queued after those that were ready before it, so of two that came i-th and j-th, j
 * first, (i - j) T <= arrive[i] - delay + tolerance - ready[j] if ready[j] <= ready[i]. Links carry a hundred
 * thousand messages, so pairs are not tried one by one: for a given T, the pair that contradicts it most is
 * found in n log n, its bound is the next T, and after a few rounds none does (Newton's method on the
 * greatest contradiction, Dinkelbach 1967). A pair's own side is ready[j] - j T; a Fenwick tree over the
 * order of `ready` keeps the greatest among those ready before. */
#include "base/memory.h"
#include "plan/trace/recover_inside.h"

#include <stdlib.h>
#include <string.h>

typedef struct queue_moment {
    sl_time ready;
    int32_t of; /* its message */
} queue_moment;

typedef struct queue {
    const sl_carried *c;
    int count;
    sl_time begin;          /* times count from here */
    queue_moment *by_ready; /* [count] in order of time */
    int32_t *rank;          /* [count] number of messages ready at that time or before */
    int32_t *best;          /* [count + 1] Fenwick tree: the index with the greatest side; -1 */
} queue;

/* Within 30 years, so that sums stay in 64 bits. */
static sl_time since(const queue *q, sl_time time) {
    const sl_time most = 1000000000 * SL_SECOND, passed = time - q->begin;
    return passed > most ? most : passed < -most ? -most : passed;
}

static sl_time side_of(const queue *q, int32_t j, sl_time transfer) {
    return since(q, q->c[j].ready) - transfer * j;
}

static void tree_put(queue *q, int32_t j, sl_time transfer) {
    for (int32_t at = q->rank[j]; at <= q->count; at += at & -at)
        if (q->best[at] < 0 || side_of(q, j, transfer) > side_of(q, q->best[at], transfer))
            q->best[at] = j;
}

static int32_t tree_greatest(const queue *q, int32_t rank, sl_time transfer) {
    int32_t greatest = -1;
    for (int32_t at = rank; at > 0; at -= at & -at)
        if (q->best[at] >= 0 &&
            (greatest < 0 || side_of(q, q->best[at], transfer) > side_of(q, greatest, transfer)))
            greatest = q->best[at];
    return greatest;
}

/* The bound of the pair that contradicts `transfer` most; `transfer` if none does. */
static sl_time next_bound(queue *q, sl_time transfer, sl_time allowance) {
    sl_time most = 0, bound = transfer;
    memset(q->best, 255, ((size_t)q->count + 1) * sizeof *q->best);
    for (int32_t i = 0; i < q->count; i++) {
        const sl_time arrive = since(q, q->c[i].arrive) + allowance;
        const int32_t j = tree_greatest(q, q->rank[i], transfer);
        const sl_time over = j < 0 ? 0 : side_of(q, j, transfer) - (arrive - transfer * i);
        if (over > most) {
            most = over;
            bound = (arrive - since(q, q->c[j].ready)) / (i - j);
        }
        tree_put(q, i, transfer);
    }
    return bound;
}

static int compare_moments(const void *a, const void *b) {
    const queue_moment *x = a, *y = b;
    return x->ready < y->ready ? -1 : x->ready > y->ready;
}

static void rank_by_ready(queue *q) {
    for (int32_t i = 0; i < q->count; i++)
        q->by_ready[i] = (queue_moment){q->c[i].ready, i};
    qsort(q->by_ready, (size_t)q->count, sizeof *q->by_ready, compare_moments);
    for (int32_t i = q->count - 1; i >= 0; i--) {
        const queue_moment *at = &q->by_ready[i];
        q->rank[at->of] = i + 1 < q->count && at->ready == at[1].ready ? q->rank[at[1].of] : i + 1;
    }
}

/* The bound of all of them, by rounds. */
static sl_time find_bound(queue *q, sl_time delay) {
    const sl_time allowance = delay / 20 + 1000 - delay;
    rank_by_ready(q);
    for (sl_time transfer = SL_QUEUE_MAX;;) {
        const sl_time next = next_bound(q, transfer, allowance);
        if (next <= 0 || next == transfer)
            return next > 0 ? next : 0;
        transfer = next;
    }
}

sl_status sl_queue_bound(const sl_carried *c, int count, sl_time delay, sl_time *transfer) {
    queue q = {.c = c};
    sl_status status;
    while (q.count < count && c[q.count].arrive != SL_TIME_NEVER) /* those come last */
        q.count++;
    *transfer = SL_QUEUE_MAX;
    if (q.count == 0)
        return SL_OK;
    q.begin = c->ready;
    SL_TRY_GOTO(done, status, sl_alloc(&q.by_ready, (size_t)q.count, sizeof *q.by_ready));
    SL_TRY_GOTO(done, status, sl_alloc(&q.rank, (size_t)q.count, sizeof *q.rank));
    SL_TRY_GOTO(done, status, sl_alloc(&q.best, (size_t)q.count + 1, sizeof *q.best));
    *transfer = find_bound(&q, delay);
done:
    SL_FREE(q.by_ready, q.rank, q.best);
    return status;
}
