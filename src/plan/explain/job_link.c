#include "plan/explain/job_link.h"
#include "base/memory.h"
#include "base/numbers.h"

#define SAMPLE 128 /* messages compared */
enum { MIN_STEPS = 3 };

/* The number and bounds of the forwards or backwards in one step. */
static int ops_in(const sl_hybrid_trace *t, size_t first, size_t end, int kind, sl_time *first_end,
                  sl_time *last_start) {
    int count = 0;
    *first_end = SL_TIME_NEVER;
    *last_start = -SL_TIME_NEVER;
    for (size_t i = first; i < end; i++) {
        const sl_hybrid_event *e = &t->event[i];
        if (e->kind != kind)
            continue;
        *first_end = sl_sooner(*first_end, e->open ? e->start : e->end);
        *last_start = sl_later(*last_start, e->start);
        count++;
    }
    return count;
}

/* When a message had come: the end of its event, or if that is a guess, the start of the op that follows. */
static sl_time arrival(const sl_hybrid_trace *t, size_t at, size_t end, int compute) {
    const sl_hybrid_event *e = &t->event[at];
    for (size_t i = at + 1; e->open && i < end; i++)
        if (t->event[i].kind == compute && t->event[i].start > e->start)
            return t->event[i].start;
    return e->end;
}

static void read_step(const sl_hybrid_trace *t, size_t first, size_t end, int direction, sl_hybrid_link *k,
                      int *counts[3], int step) {
    const int compute = direction == 1 ? SL_KIND_FORWARD : SL_KIND_BACKWARD;
    sl_time first_end, last_start;
    counts[0][step] = ops_in(t, first, end, compute, &first_end, &last_start);
    counts[1][step] = counts[2][step] = 0;
    for (size_t i = first; i < end; i++) {
        const sl_hybrid_event *e = &t->event[i];
        const sl_traced_kind *kind = &sl_traced_kinds[e->kind];
        if ((kind->sends & direction) && !sl_hybrid_is_idle_send(e, first_end)) {
            k->sent_step[k->count_sent] = e->step;
            k->sent[k->count_sent++] = e->open ? e->start : e->end; /* its end is a guess */
            counts[1][step]++;
        }
        if ((kind->receives & direction) && !sl_hybrid_is_idle_receive(e, last_start)) {
            k->received_step[k->count_received] = e->step;
            k->received[k->count_received++] = arrival(t, i, end, compute);
            counts[2][step]++;
        }
    }
}

/* The most frequent count: incomplete steps are few. */
static int usual(const int *counts, int steps) {
    int best = 0, most = 0;
    for (int i = 0; i < steps; i++) {
        int same = 0;
        for (int k = 0; k < steps && k < 200; k++)
            same += counts[k] == counts[i];
        if (same > most || (same == most && counts[i] > best)) {
            best = counts[i];
            most = same;
        }
        if (i > 200)
            break;
    }
    return best;
}

sl_status sl_hybrid_link_read(const sl_hybrid_trace *t, int worker, int direction, sl_hybrid_link *k) {
    size_t events = t->worker[worker].end - t->worker[worker].first;
    int *counts[3] = {NULL, NULL, NULL}, steps = 0;
    sl_status status;
    SL_TRY_GOTO(done, status, sl_alloc(&k->sent, events, sizeof *k->sent));
    SL_TRY_GOTO(done, status, sl_alloc(&k->received, events, sizeof *k->received));
    SL_TRY_GOTO(done, status, sl_alloc(&k->sent_step, events, sizeof *k->sent_step));
    SL_TRY_GOTO(done, status, sl_alloc(&k->received_step, events, sizeof *k->received_step));
    for (int i = 0; i < 3; i++)
        SL_TRY_GOTO(done, status, sl_alloc(&counts[i], events, sizeof *counts[i]));
    for (size_t i = t->worker[worker].first, next; i < t->worker[worker].end; i = next) {
        for (next = i; next < t->worker[worker].end && t->event[next].step == t->event[i].step; next++)
            continue;
        read_step(t, i, next, direction, k, counts, steps++);
    }
    k->ops = usual(counts[0], steps);
    k->sends = usual(counts[1], steps);
    k->receives = usual(counts[2], steps);
done:
    SL_FREE(counts[0], counts[1], counts[2]);
    return status;
}

void sl_hybrid_link_free(sl_hybrid_link *k) {
    SL_FREE(k->sent, k->received, k->sent_step, k->received_step);
    *k = (sl_hybrid_link){0};
}

/* The messages of one step that both have. */
static int in_step(const int64_t *step, int count, int at) {
    int end = at;
    while (end < count && step[end] == step[at])
        end++;
    return end - at;
}

/* A step that both ends have: where its messages begin, and how many there are. */
typedef struct shared_step {
    int at_sent, at_received, sent, received;
} shared_step;

/* Goes on to the next one; 0: there is none. */
static int next_shared(const sl_hybrid_link *from, const sl_hybrid_link *to, shared_step *s) {
    s->at_sent += s->sent;
    s->at_received += s->received;
    while (s->at_sent < from->count_sent && s->at_received < to->count_received) {
        int64_t a = from->sent_step[s->at_sent], b = to->received_step[s->at_received];
        s->sent = in_step(from->sent_step, from->count_sent, s->at_sent);
        s->received = in_step(to->received_step, to->count_received, s->at_received);
        if (a == b)
            return 1;
        s->at_sent += a < b ? s->sent : 0;
        s->at_received += b < a ? s->received : 0;
    }
    return 0;
}

/* From a send's end to its receive's; returns their number. */
static int differences(const sl_hybrid_link *from, const sl_hybrid_link *to, sl_time difference[SAMPLE]) {
    int count = 0;
    for (shared_step s = {0}; count < SAMPLE && next_shared(from, to, &s);) {
        if (s.sent != from->sends || s.received != to->receives)
            continue;
        if (s.sent != s.received)
            return 0;
        for (int m = 0; m < s.sent && count < SAMPLE; m++)
            difference[count++] = to->received[s.at_received + m] - from->sent[s.at_sent + m];
    }
    return count;
}

int sl_hybrid_link_compare(const sl_hybrid_link *from, const sl_hybrid_link *to, sl_time *median,
                           sl_time *spread) {
    sl_time difference[SAMPLE];
    int count = differences(from, to, difference);
    *median = sl_median(difference, count);
    for (int i = 0; i < count; i++)
        difference[i] = difference[i] > *median ? difference[i] - *median : *median - difference[i];
    if (spread)
        *spread = sl_median(difference, count);
    return count;
}

/* The least of each step; their number. */
static int leasts(const sl_hybrid_link *from, const sl_hybrid_link *to, sl_time least[SAMPLE]) {
    int count = 0;
    for (shared_step s = {0}; count < SAMPLE && next_shared(from, to, &s);) {
        if (s.sent != s.received)
            continue;
        const sl_time *sent = from->sent + s.at_sent, *received = to->received + s.at_received;
        least[count] = received[0] - sent[0];
        for (int m = 1; m < s.sent; m++)
            least[count] = sl_sooner(least[count], received[m] - sent[m]);
        count++;
    }
    return count;
}

int sl_hybrid_link_awaited(const sl_hybrid_link *from, const sl_hybrid_link *to, sl_time *median,
                           sl_time *spread) {
    sl_time least[SAMPLE];
    int count = leasts(from, to, least);
    if (count < MIN_STEPS)
        return sl_hybrid_link_compare(from, to, median, spread);
    *median = sl_median(least, count);
    for (int i = 0; i < count; i++)
        least[i] = least[i] > *median ? least[i] - *median : *median - least[i];
    if (spread)
        *spread = sl_median(least, count);
    return count;
}
