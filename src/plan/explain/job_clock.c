#include "plan/explain/job_clock.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/explain/job_link.h"

#include <stdlib.h>

/* The offset of `to` from `from`, its predecessor in the pipeline; 0 if it is no more than the messages'
 * times vary. */
static sl_status along(const sl_hybrid_trace *t, int from, int to, sl_time *offset) {
    sl_hybrid_link link[2][2] = {0}; /* [worker][direction] */
    sl_time there, back, spread[2];
    sl_status status = SL_OK;
    *offset = 0;
    for (int i = 0; status == SL_OK && i < 4; i++)
        status = sl_hybrid_link_read(t, i / 2 ? to : from, 1 + i % 2, &link[i / 2][i % 2]);
    if (status == SL_OK && sl_hybrid_link_compare(&link[0][0], &link[1][0], &there, &spread[0]) > 0 &&
        sl_hybrid_link_compare(&link[1][1], &link[0][1], &back, &spread[1]) > 0 &&
        llabs(there - back) / 2 > spread[0] + spread[1])
        *offset = (there - back) / 2;
    for (int i = 0; i < 4; i++)
        sl_hybrid_link_free(&link[i / 2][i % 2]);
    return status;
}

/* The ends of a worker's collectives over replicas, or over all, in order. */
typedef struct clock_ends {
    int64_t *step;
    sl_time *end;
    int count;
} clock_ends;

static sl_status read_ends(const sl_hybrid_trace *t, int worker, clock_ends *ends) {
    size_t events = t->worker[worker].end - t->worker[worker].first;
    SL_TRY(sl_alloc(&ends->step, events, sizeof *ends->step));
    SL_TRY(sl_alloc(&ends->end, events, sizeof *ends->end));
    for (size_t i = t->worker[worker].first; i < t->worker[worker].end; i++) {
        const sl_hybrid_event *e = &t->event[i];
        sl_traced_role role = sl_traced_kinds[e->kind].role;
        if (role != SL_ROLE_REPLICAS && role != SL_ROLE_ALL)
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

/* The median difference of the ends of what two workers did together; 0: *known. */
static sl_status across(const sl_hybrid_trace *t, int one, int other, sl_time *offset, int *known) {
    clock_ends a = {0}, b = {0};
    sl_time *difference = NULL;
    int count = 0;
    sl_status status = read_ends(t, one, &a);
    SL_THEN(status, read_ends(t, other, &b));
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

sl_status sl_hybrid_clocks(const sl_hybrid_trace *t, const sl_hybrid_layout *l, sl_time *offset) {
    sl_time *shift; /* of a replica, as each of its pipeline ranks sees it */
    int known;
    for (int d = 0; d < l->data; d++) {
        offset[d] = 0;
        for (int p = 1; p < l->pipeline; p++) {
            int here = p * l->data + d, before = here - l->data;
            SL_TRY(along(t, l->worker[before], l->worker[here], &offset[here]));
            offset[here] += offset[before];
        }
    }
    SL_TRY(sl_alloc(&shift, (size_t)l->pipeline, sizeof *shift));
    sl_status status = SL_OK;
    for (int d = 1; status == SL_OK && d < l->data; d++) {
        int count = 0;
        for (int p = 0; status == SL_OK && p < l->pipeline; p++) {
            status = across(t, l->worker[p * l->data], l->worker[p * l->data + d], &shift[count], &known);
            shift[count] -= offset[p * l->data + d] - offset[p * l->data];
            count += status == SL_OK && known;
        }
        sl_time whole = sl_median(shift, count);
        for (int p = 0; p < l->pipeline; p++)
            offset[p * l->data + d] += whole;
    }
    sl_free(shift);
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
