#include "plan/explain/job_clock.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/explain/job_link.h"

#include <stdlib.h>
#include <string.h>

/* The offset of `to` from `from`, its predecessor in the pipeline; 0 if it is no more than the messages'
 * times vary. */
static sl_status along(const sl_hybrid_trace *t, int from, int to, sl_time *offset) {
    sl_hybrid_link link[2][2] = {0}; /* [worker][direction] */
    sl_time there, back;
    sl_status status = SL_OK;
    *offset = 0;
    for (int i = 0; status == SL_OK && i < 4; i++)
        status = sl_hybrid_link_read(t, i / 2 ? to : from, 1 + i % 2, &link[i / 2][i % 2]);
    if (status == SL_OK && sl_hybrid_link_awaited(&link[0][0], &link[1][0], &there, NULL) > 0 &&
        sl_hybrid_link_awaited(&link[1][1], &link[0][1], &back, NULL) > 0)
        *offset = (there - back) / 2;
    for (int i = 0; i < 4; i++)
        sl_hybrid_link_free(&link[i / 2][i % 2]);
    return status;
}

/* The ends of a worker's collectives over all, and over replicas if these count, too, in order. */
typedef struct clock_ends {
    int64_t *step;
    sl_time *end;
    int count;
} clock_ends;

static sl_status read_ends(const sl_hybrid_trace *t, int worker, int replicas, clock_ends *ends) {
    size_t events = t->worker[worker].end - t->worker[worker].first;
    SL_TRY(sl_alloc(&ends->step, events, sizeof *ends->step));
    SL_TRY(sl_alloc(&ends->end, events, sizeof *ends->end));
    for (size_t i = t->worker[worker].first; i < t->worker[worker].end; i++) {
        const sl_hybrid_event *e = &t->event[i];
        sl_traced_role role = sl_traced_kinds[e->kind].role;
        if (role != SL_ROLE_ALL && !(replicas && role == SL_ROLE_REPLICAS))
            continue;
        ends->step[ends->count] = e->step;
        ends->end[ends->count++] = e->end;
    }
    return SL_OK;
}

static void free_ends(clock_ends *ends) {
    SL_FREE(ends->step, ends->end);
}

/* How many of one step begin at `at`. */
static int together(const clock_ends *ends, int at) {
    int end = at;
    while (end < ends->count && ends->step[end] == ends->step[at])
        end++;
    return end - at;
}

/* The median difference of the ends of what two workers did together; *known is 0 if there is nothing. */
static sl_status across(const sl_hybrid_trace *t, int one, int other, int replicas, sl_time *offset,
                        int *known) {
    clock_ends a = {0}, b = {0};
    sl_time *difference = NULL;
    int count = 0;
    sl_status status = read_ends(t, one, replicas, &a);
    SL_THEN(status, read_ends(t, other, replicas, &b));
    SL_THEN(status, sl_alloc(&difference, (size_t)a.count + 1, sizeof *difference));
    for (int i = 0, k = 0; status == SL_OK && i < a.count && k < b.count;) {
        int mine = together(&a, i), its = together(&b, k);
        for (int m = 0; a.step[i] == b.step[k] && mine == its && m < mine; m++)
            difference[count++] = b.end[k + m] - a.end[i + m];
        int64_t x = a.step[i], y = b.step[k];
        i += x <= y ? mine : 0;
        k += y <= x ? its : 0;
    }
    *known = count > 0;
    *offset = sl_median(difference, count);
    free_ends(&a);
    free_ends(&b);
    sl_free(difference);
    return status;
}

/* Offsets of one pipeline rank: of its workers from the one of the first replica, by their collectives; and
 * from the rank before it, by messages: each replica says how far the first replicas' workers are apart. */
typedef struct clock_rank {
    sl_time *within;  /* [replicas] */
    int *known;       /* [replicas] */
    sl_time *between; /* [replicas + 1] */
    int count;        /* of `between` */
} clock_rank;

static sl_status read_rank(const sl_hybrid_trace *t, const sl_hybrid_layout *l, int p, clock_rank *rank) {
    const int32_t *worker = l->worker + p * l->data;
    rank->known[0] = 1;
    rank->within[0] = 0;
    for (int d = 1; d < l->data; d++)
        SL_TRY(across(t, worker[0], worker[d], 1, &rank->within[d], &rank->known[d]));
    return SL_OK;
}

/* Messages are right unless a link is slower in one direction, which is rare: their median over replicas,
 * with the collectives of all as one more opinion. */
static sl_status settle_rank(const sl_hybrid_trace *t, const sl_hybrid_layout *l, int p,
                             const sl_time *along_by, const clock_rank *before, clock_rank *rank,
                             sl_time *offset) {
    int all = 0;
    sl_time by_all = 0;
    rank->count = 0;
    for (int d = 0; d < l->data; d++)
        if (rank->known[d] && before->known[d])
            rank->between[rank->count++] = along_by[d] - rank->within[d] + before->within[d];
    if (l->data > 1)
        SL_TRY(across(t, l->worker[(p - 1) * l->data], l->worker[p * l->data], 0, &by_all, &all));
    if (all)
        rank->between[rank->count++] = by_all;
    sl_time between = sl_median(rank->between, rank->count);
    const sl_time *from = offset + (p - 1) * l->data;
    for (int d = 0; d < l->data; d++)
        offset[p * l->data + d] =
            rank->known[d] ? from[0] + between + rank->within[d] : from[d] + along_by[d];
    return SL_OK;
}

static sl_status find_offsets(const sl_hybrid_trace *t, const sl_hybrid_layout *l, clock_rank rank[2],
                              sl_time *along_by, sl_time *offset) {
    SL_TRY(read_rank(t, l, 0, &rank[0]));
    memcpy(offset, rank[0].within, (size_t)l->data * sizeof *offset);
    for (int p = 1; p < l->pipeline; p++) {
        for (int d = 0; d < l->data; d++)
            SL_TRY(along(t, l->worker[(p - 1) * l->data + d], l->worker[p * l->data + d], &along_by[d]));
        SL_TRY(read_rank(t, l, p, &rank[p % 2]));
        SL_TRY(settle_rank(t, l, p, along_by, &rank[(p - 1) % 2], &rank[p % 2], offset));
    }
    return SL_OK;
}

sl_status sl_hybrid_clocks(const sl_hybrid_trace *t, const sl_hybrid_layout *l, sl_time *offset) {
    clock_rank rank[2] = {0};
    size_t data = (size_t)l->data;
    sl_time *along_by = NULL;
    sl_status status;
    SL_TRY_GOTO(done, status, sl_alloc(&along_by, data, sizeof *along_by));
    for (int i = 0; i < 2; i++) {
        SL_TRY_GOTO(done, status, sl_alloc(&rank[i].within, data, sizeof *rank[i].within));
        SL_TRY_GOTO(done, status, sl_alloc(&rank[i].known, data, sizeof *rank[i].known));
        SL_TRY_GOTO(done, status, sl_alloc(&rank[i].between, data + 1, sizeof *rank[i].between));
    }
    status = find_offsets(t, l, rank, along_by, offset);
done:
    for (int i = 0; i < 2; i++)
        SL_FREE(rank[i].within, rank[i].known, rank[i].between);
    sl_free(along_by);
    return status;
}

void sl_hybrid_clocks_apply(sl_hybrid_trace *t, const sl_hybrid_layout *l, const sl_time *offset) {
    for (int i = 0; i < l->pipeline * l->data; i++) {
        const sl_hybrid_worker *w = &t->worker[l->worker[i]];
        for (size_t k = w->first; k < w->end; k++) {
            t->event[k].start -= offset[i];
            t->event[k].end -= offset[i];
        }
    }
}
