#include "plan/family/list.h"
#include "base/memory.h"
#include "plan/family/moments.h"

typedef struct listed_stage {
    int32_t next[3];            /* how many F, I, W have started */
    int32_t count, first, step; /* its microbatches: first, first + step, ... */
    int32_t rank, before, after;
    sl_time *ready_f, *ready_i; /* [count] arrival; SL_TIME_NEVER: not sent yet */
    double reserve;             /* memory that an F leaves free for the later stages of the rank */
} listed_stage;

typedef struct list_rank {
    sl_time busy;         /* end of the running op */
    double memory;        /* in use after all ops that end by `busy` */
    sl_time link_free[2]; /* towards the next and the previous rank */
    int forwards;
    int stages, *stage;
} list_rank;

typedef struct list_scheduler {
    const sl_problem *problem;
    const sl_list_rule *rule;
    sl_order *order;
    list_rank *rank;
    listed_stage *stage;
    int *stages; /* one block for all ranks */
    sl_time *ready;
    sl_time *wire_free; /* [wires] if links share one; else NULL */
    sl_moments moments;
} list_scheduler;

typedef struct op_candidate {
    int stage, kind; /* kind -1: none */
    int64_t key;
} op_candidate;

/* ---- deciding ---- */

/* Sums of deltas such as 0.1 have rounding errors, which must not count as exceeding a limit. */
static int fits(const list_scheduler *s, int rank, double more) {
    if (!s->rule->limited || !s->problem->limit || more <= 0)
        return 1;
    double limit = s->problem->limit[rank];
    return s->rank[rank].memory + more <= limit + 1e-9 * limit;
}

/* Maximum memory of I or its recomputation. */
static double input_needs(const sl_problem *p, int stage) {
    double start = p->early[stage], end = start + p->delta[SL_I][stage];
    double most = start > end ? start : end;
    return most > 0 ? most : 0;
}

/* If I takes memory, an F leaves room for one I and for an F of each later stage of the rank: else a rank
 * could fill up with forwards and get stuck. */
static double forward_needs(const sl_problem *p, int stage) {
    return p->delta[SL_F][stage] + input_needs(p, stage);
}

static int may_forward(const list_scheduler *s, int stage, sl_time now) {
    const listed_stage *g = &s->stage[stage];
    int f = g->next[SL_F];
    if (f >= g->count || g->ready_f[f] > now)
        return 0;
    if (s->rule->ahead && f - g->next[SL_I] >= s->rule->ahead[stage])
        return 0;
    if (s->rule->flight && f - g->next[SL_W] >= s->rule->flight[stage])
        return 0;
    return fits(s, g->rank, forward_needs(s->problem, stage) + g->reserve);
}

static int may_backward(const list_scheduler *s, int stage, sl_time now) {
    const listed_stage *g = &s->stage[stage];
    int i = g->next[SL_I];
    return i < g->next[SL_F] && g->ready_i[i] <= now && fits(s, g->rank, input_needs(s->problem, stage));
}

static int64_t key_of(const list_scheduler *s, int stage, int kind, int forward_first) {
    const listed_stage *g = &s->stage[stage];
    int k = g->next[kind];
    if (s->rule->key)
        return s->rule->key[((int64_t)stage * 3 + kind) * s->problem->microbatches + k];
    int64_t microbatch = g->first + (int64_t)k * g->step, stages = s->problem->stages;
    int64_t deep = kind == SL_F ? stage : stages - 1 - stage; /* earlier on the microbatch's path */
    int64_t class = kind == SL_W ? 2 : (kind == SL_F) == forward_first ? 0 : 1;
    int64_t inner =
        s->rule->tie == SL_OLDEST ? microbatch * stages + deep : deep * s->problem->microbatches + microbatch;
    return class * 1000000000000 + inner;
}

static void offer(const list_scheduler *s, int stage, int kind, op_candidate *best) {
    int64_t key = key_of(s, stage, kind, s->rule->forward_first);
    if (best->kind < 0 || key < best->key)
        *best = (op_candidate){.stage = stage, .kind = kind, .key = key};
}

/* Whether an op with a lower key than this W comes within the rule's patience. */
static int worth_waiting(const list_scheduler *s, int rank, const op_candidate *best, sl_time now) {
    for (int i = 0; i < s->rank[rank].stages; i++) {
        int stage = s->rank[rank].stage[i];
        const listed_stage *g = &s->stage[stage];
        int f = g->next[SL_F], b = g->next[SL_I];
        if (f < g->count && g->ready_f[f] > now && g->ready_f[f] <= now + s->rule->patience &&
            key_of(s, stage, SL_F, 0) < best->key && may_forward(s, stage, g->ready_f[f]))
            return 1;
        if (b < f && g->ready_i[b] > now && g->ready_i[b] <= now + s->rule->patience &&
            key_of(s, stage, SL_I, 0) < best->key && may_backward(s, stage, g->ready_i[b]))
            return 1;
    }
    return 0;
}

/* The op that an idle rank starts now. */
static op_candidate select_op(const list_scheduler *s, int rank, sl_time now) {
    const list_rank *r = &s->rank[rank];
    int warming = r->forwards < s->rule->warmup[rank];
    op_candidate best = {.kind = -1};
    for (int i = 0; i < r->stages; i++) {
        int stage = r->stage[i];
        const listed_stage *g = &s->stage[stage];
        if (may_forward(s, stage, now))
            offer(s, stage, SL_F, &best);
        if (!warming && may_backward(s, stage, now))
            offer(s, stage, SL_I, &best);
        if (!warming && g->next[SL_W] < g->next[SL_I])
            offer(s, stage, SL_W, &best);
    }
    if (best.kind == SL_W && s->rule->patience > 0 && worth_waiting(s, rank, &best, now))
        best.kind = -1;
    return best;
}

/* ---- running ops ---- */

static int towards(const list_scheduler *s, int from, int to) {
    int ranks = s->problem->ranks;
    return ranks == 2 ? to < from : to != (from + 1) % ranks;
}

static sl_status deliver(list_scheduler *s, int stage, int to, int kind, int k, sl_time end) {
    int from = s->stage[stage].rank, peer = s->stage[to].rank;
    sl_time *ready = kind == SL_F ? s->stage[to].ready_f : s->stage[to].ready_i;
    if (from == peer) {
        ready[k] = end;
        return SL_OK; /* the rank decides again when the op ends */
    }
    size_t at = (size_t)from * (size_t)s->problem->ranks + (size_t)peer;
    const sl_link *link = &s->problem->link[at];
    sl_time *free_at =
        s->wire_free ? &s->wire_free[s->problem->wire[at]] : &s->rank[from].link_free[towards(s, from, peer)];
    sl_time left = (*free_at > end ? *free_at : end) + link->transfer;
    *free_at = left;
    ready[k] = left + link->latency;
    return sl_moments_add(&s->moments, ready[k], peer);
}

static sl_status start_op(list_scheduler *s, const op_candidate *what, sl_time now) {
    listed_stage *g = &s->stage[what->stage];
    list_rank *r = &s->rank[g->rank];
    int k = g->next[what->kind]++;
    s->order->ops[g->rank][s->order->count[g->rank]++] =
        (sl_op){.stage = what->stage, .microbatch = g->first + k * g->step, .kind = what->kind};
    r->busy = now + s->problem->time[what->kind][what->stage];
    r->memory += s->problem->delta[what->kind][what->stage]; /* I and W count at their end: nothing is
                                                                decided before that */
    if (what->kind == SL_I)
        r->memory += s->problem->early[what->stage];
    if (what->kind == SL_F) {
        r->forwards++;
        if (g->after >= 0)
            SL_TRY(deliver(s, what->stage, g->after, SL_F, k, r->busy));
        else
            g->ready_i[k] = r->busy;
    }
    if (what->kind == SL_I && g->before >= 0)
        SL_TRY(deliver(s, what->stage, g->before, SL_I, k, r->busy));
    return sl_moments_add(&s->moments, r->busy, g->rank);
}

static sl_status run(list_scheduler *s) {
    for (int rank = 0; rank < s->problem->ranks; rank++)
        SL_TRY(sl_moments_add(&s->moments, 0, rank));
    while (s->moments.count > 0) {
        sl_moment now = sl_moments_take(&s->moments);
        if (s->rank[now.rank].busy > now.time)
            continue;
        op_candidate chosen = select_op(s, now.rank, now.time);
        if (chosen.kind >= 0)
            SL_TRY(start_op(s, &chosen, now.time));
    }
    for (int stage = 0; stage < s->problem->stages; stage++)
        if (s->stage[stage].next[SL_W] < s->stage[stage].count)
            return sl_error(SL_ENONE,
                            "rank %d gets stuck after %d of %d microbatches: the memory limit is too low",
                            s->stage[stage].rank, s->stage[stage].next[SL_W], s->stage[stage].count);
    return SL_OK;
}

/* ---- the start ---- */

static void prepare_stage(list_scheduler *s, int stage, sl_time *ready) {
    const sl_problem *p = s->problem;
    listed_stage *g = &s->stage[stage];
    int two = p->placement == SL_BIDIRECTIONAL;
    *g = (listed_stage){.count = sl_problem_microbatches(p, stage),
                        .first = two && stage >= p->ranks,
                        .step = two ? 2 : 1,
                        .rank = sl_problem_rank(p, stage),
                        .before = sl_problem_previous(p, stage),
                        .after = sl_problem_next(p, stage),
                        .ready_f = ready,
                        .ready_i = ready + p->microbatches};
    for (int i = 0; i < 2 * p->microbatches; i++) /* the forwards of a first stage are ready immediately */
        ready[i] = i < p->microbatches && g->before < 0 ? 0 : SL_TIME_NEVER;
    for (int later = stage + 1; later < p->stages && !two; later++)
        if (sl_problem_rank(p, later) == g->rank && p->delta[SL_F][later] > 0)
            g->reserve += p->delta[SL_F][later];
}

static sl_status prepare(list_scheduler *s) {
    const sl_problem *p = s->problem;
    size_t ranks = (size_t)p->ranks, stages = (size_t)p->stages, n = (size_t)p->microbatches;
    int most = 0;
    SL_TRY(sl_alloc(&s->rank, ranks, sizeof *s->rank));
    SL_TRY(sl_alloc(&s->stage, stages, sizeof *s->stage));
    SL_TRY(sl_alloc(&s->stages, stages, sizeof *s->stages));
    SL_TRY(sl_alloc(&s->ready, 2 * stages * n, sizeof *s->ready));
    if (p->wire)
        SL_TRY(sl_alloc(&s->wire_free, 3 * ranks * ranks, sizeof *s->wire_free));
    int *next = s->stages;
    for (int rank = 0; rank < p->ranks; rank++) {
        list_rank *r = &s->rank[rank];
        r->stage = next;
        for (int stage = 0; stage < p->stages; stage++)
            if (sl_problem_rank(p, stage) == rank)
                r->stage[r->stages++] = stage;
        next += r->stages;
        most = r->stages > most ? r->stages : most;
    }
    for (size_t stage = 0; stage < stages; stage++)
        prepare_stage(s, (int)stage, s->ready + 2 * stage * n);
    return sl_order_make(p->ranks, 3 * p->microbatches * most, s->order);
}

sl_status sl_list_schedule(const sl_problem *problem, const sl_list_rule *rule, sl_order *order) {
    list_scheduler s = {.problem = problem, .rule = rule, .order = order};
    *order = (sl_order){0};
    sl_status status = prepare(&s);
    SL_THEN(status, run(&s));
    SL_FREE(s.rank, s.stage, s.stages, s.ready, s.wire_free);
    sl_moments_free(&s.moments);
    if (status != SL_OK)
        sl_order_free(order);
    return status;
}
