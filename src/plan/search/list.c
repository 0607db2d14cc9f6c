#include "plan/search/list.h"
#include "base/memory.h"

/* A moment at which a rank may have something new to decide. */
typedef struct moment {
    sl_time time;
    int32_t rank;
} moment;

typedef struct rank_state {
    int32_t next[3];            /* next microbatch of F, I, W */
    sl_time busy;               /* the running op ends */
    double memory;              /* in use once all ops that have ended by `busy` are counted */
    sl_time link_free[2];       /* towards the next and the previous rank */
    sl_time *ready_f, *ready_i; /* [microbatches] arrival; SL_TIME_NEVER: not sent yet */
} rank_state;

typedef struct scheduler {
    const sl_problem *problem;
    const sl_list_rule *rule;
    sl_order *order;
    rank_state *rank;
    sl_time *ready; /* one block for all ranks */
    moment *heap;
    size_t moments, capacity;
} scheduler;

/* ---- a binary heap by time, then rank ---- */

static int earlier(const moment *a, const moment *b) {
    return a->time != b->time ? a->time < b->time : a->rank < b->rank;
}

static sl_status push(scheduler *s, sl_time time, int rank) {
    SL_TRY(sl_grow(&s->heap, &s->capacity, s->moments + 1, sizeof *s->heap));
    size_t i = s->moments++;
    moment added = {.time = time, .rank = rank};
    for (; i > 0 && earlier(&added, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = added;
    return SL_OK;
}

static moment pop(scheduler *s) {
    moment top = s->heap[0], last = s->heap[--s->moments];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < s->moments; i = child) {
        if (child + 1 < s->moments && earlier(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!earlier(&s->heap[child], &last))
            break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
    return top;
}

/* ---- deciding ---- */

/* Sums of deltas such as 0.1 are off by rounding; a limit is not passed by that. */
static int fits(const scheduler *s, int rank, double more) {
    if (!s->rule->limited || !s->problem->limit || more <= 0)
        return 1;
    double limit = s->problem->limit[rank];
    return s->rank[rank].memory + more <= limit + 1e-9 * limit;
}

/* Where I takes memory, an F leaves room for one I: else a rank could fill up with forwards and never go on.
 */
static double forward_needs(const sl_problem *p, int rank) {
    double input = p->delta[SL_I][rank];
    return p->delta[SL_F][rank] + (input > 0 ? input : 0);
}

static int may_forward(const scheduler *s, int rank, sl_time now) {
    const rank_state *r = &s->rank[rank];
    int f = r->next[SL_F];
    if (f >= s->problem->microbatches || r->ready_f[f] > now)
        return 0;
    if (s->rule->ahead && f - r->next[SL_I] >= s->rule->ahead[rank])
        return 0;
    if (s->rule->flight && f - r->next[SL_W] >= s->rule->flight[rank])
        return 0;
    return fits(s, rank, forward_needs(s->problem, rank));
}

static int may_backward(const scheduler *s, int rank, sl_time now) {
    const rank_state *r = &s->rank[rank];
    int i = r->next[SL_I];
    return i < r->next[SL_F] && r->ready_i[i] <= now && fits(s, rank, s->problem->delta[SL_I][rank]);
}

/* The kind of op that an idle rank takes now; -1: none. */
static int select_op(const scheduler *s, int rank, sl_time now) {
    const rank_state *r = &s->rank[rank];
    if (r->next[SL_F] < s->rule->warmup[rank])
        return may_forward(s, rank, now) ? SL_F : -1;
    int forward = may_forward(s, rank, now), backward = may_backward(s, rank, now);
    if (forward && (s->rule->forward_first || !backward))
        return SL_F;
    if (backward)
        return SL_I;
    return r->next[SL_W] < r->next[SL_I] ? SL_W : -1;
}

/* ---- doing ---- */

static sl_status deliver(scheduler *s, int rank, int to, int microbatch, sl_time end) {
    const sl_link *link = &s->problem->link[(size_t)rank * (size_t)s->problem->ranks + (size_t)to];
    sl_time *free_at = &s->rank[rank].link_free[to > rank ? 0 : 1];
    sl_time left = (*free_at > end ? *free_at : end) + link->transfer, arrive = left + link->latency;
    *free_at = left;
    *(to > rank ? &s->rank[to].ready_f[microbatch] : &s->rank[to].ready_i[microbatch]) = arrive;
    return push(s, arrive, to);
}

static sl_status start_op(scheduler *s, int rank, int kind, sl_time now) {
    rank_state *r = &s->rank[rank];
    int m = r->next[kind]++, last = s->problem->ranks - 1;
    s->order->ops[rank][s->order->count[rank]++] = (sl_op){.stage = rank, .microbatch = m, .kind = kind};
    r->busy = now + s->problem->time[kind][rank];
    r->memory +=
        s->problem->delta[kind][rank]; /* I and W count at their end: nothing is decided before that */
    if (kind == SL_F && rank < last)
        SL_TRY(deliver(s, rank, rank + 1, m, r->busy));
    if (kind == SL_F && rank == last)
        r->ready_i[m] = r->busy;
    if (kind == SL_I && rank > 0)
        SL_TRY(deliver(s, rank, rank - 1, m, r->busy));
    return push(s, r->busy, rank);
}

static sl_status run(scheduler *s) {
    for (int rank = 0; rank < s->problem->ranks; rank++)
        SL_TRY(push(s, 0, rank));
    while (s->moments > 0) {
        moment now = pop(s);
        if (s->rank[now.rank].busy > now.time)
            continue;
        int kind = select_op(s, now.rank, now.time);
        if (kind >= 0)
            SL_TRY(start_op(s, now.rank, kind, now.time));
    }
    for (int rank = 0; rank < s->problem->ranks; rank++)
        if (s->rank[rank].next[SL_W] < s->problem->microbatches)
            return sl_error(SL_ENONE,
                            "rank %d gets stuck after %d of %d microbatches: the memory limit is too low",
                            rank, s->rank[rank].next[SL_W], s->problem->microbatches);
    return SL_OK;
}

static sl_status prepare(scheduler *s) {
    size_t ranks = (size_t)s->problem->ranks, n = (size_t)s->problem->microbatches;
    SL_TRY(sl_alloc(&s->rank, ranks, sizeof *s->rank));
    SL_TRY(sl_alloc(&s->ready, 2 * ranks * n, sizeof *s->ready));
    for (size_t i = 0; i < 2 * ranks * n; i++)
        s->ready[i] = i < n ? 0 : SL_TIME_NEVER; /* the forwards of rank 0 are ready at once */
    for (size_t rank = 0; rank < ranks; rank++) {
        s->rank[rank].ready_f = s->ready + 2 * rank * n;
        s->rank[rank].ready_i = s->ready + (2 * rank + 1) * n;
    }
    return SL_OK;
}

sl_status sl_list_schedule(const sl_problem *problem, const sl_list_rule *rule, sl_order *order) {
    scheduler s = {.problem = problem, .rule = rule, .order = order};
    SL_TRY(sl_order_make(problem->ranks, 3 * problem->microbatches, order));
    sl_status status = prepare(&s);
    if (status == SL_OK)
        status = run(&s);
    sl_free(s.rank);
    sl_free(s.ready);
    sl_free(s.heap);
    if (status != SL_OK)
        sl_order_free(order);
    return status;
}
