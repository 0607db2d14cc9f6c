#include "plan/family/greedy_pass.h"
#include "base/memory.h"
#include "plan/family/moments.h"
#include "plan/family/windows.h"

typedef struct greedy_rank {
    int32_t next[3];   /* next microbatch of F, I, W */
    int16_t part;      /* of the next W */
    int16_t turn;      /* SL_F or SL_I */
    sl_time busy;      /* end of the running op */
    double memory;     /* in use after the running op has ended */
    sl_time *ready[2]; /* of F and I [microbatches]: arrival; SL_TIME_NEVER: not sent yet */
    int32_t wire[2];   /* towards the next and the previous rank */
} greedy_rank;

typedef struct greedy_scheduler {
    const sl_problem *problem;
    const sl_phase_rule *rule;
    sl_order *order;
    greedy_rank *rank;
    sl_time *ready; /* one block for all ranks */
    sl_windows *wire;
    sl_moments moments;
    int loose; /* ranks have waited for each other: quotas and turns no longer apply */
} greedy_scheduler;

/* ---- ops that may start ---- */

/* Sums of deltas such as 0.1 have rounding errors, which must not count as exceeding a limit. */
static int fits(const greedy_scheduler *s, int rank, double more) {
    if (!s->problem->limit || more <= 0)
        return 1;
    double limit = s->problem->limit[rank];
    return s->rank[rank].memory + more <= limit + 1e-9 * limit;
}

/* Maximum memory of I, with its recomputation. */
static double input_needs(const sl_problem *p, int rank) {
    double start = p->early[rank], end = start + p->delta[SL_I][rank], most = start > end ? start : end;
    return most > 0 ? most : 0;
}

/* An F leaves room for one I: else a rank could fill up with forwards and get stuck. */
static int has_room(const greedy_scheduler *s, int rank, int kind) {
    double needs = input_needs(s->problem, rank);
    return fits(s, rank, kind == SL_F ? s->problem->delta[SL_F][rank] + needs : needs);
}

/* Arrival of the next F or I; SL_TIME_NEVER: all have started, or it has not been sent. */
static sl_time arrival(const greedy_scheduler *s, int rank, int kind) {
    const greedy_rank *r = &s->rank[rank];
    int m = r->next[kind];
    if (m >= s->problem->microbatches || (kind == SL_I && m >= r->next[SL_F]))
        return SL_TIME_NEVER;
    return r->ready[kind][m];
}

static int has_weights(const greedy_scheduler *s, int rank) {
    return s->rank[rank].next[SL_W] < s->rank[rank].next[SL_I];
}

static sl_op next_weights(const greedy_scheduler *s, int rank) {
    const greedy_rank *r = &s->rank[rank];
    return (sl_op){.stage = rank, .microbatch = r->next[SL_W], .kind = SL_W, .part = r->part};
}

/* ---- the choice ---- */

static int warming(const greedy_scheduler *s, int rank) {
    const greedy_rank *r = &s->rank[rank];
    if (s->loose || r->next[SL_F] == s->problem->microbatches || !has_room(s, rank, SL_F))
        return 0;
    return s->rule->warmup && r->next[SL_F] < s->rule->warmup[rank];
}

/* F or I, or -1: neither may start, or the rank waits for the other one's turn. */
static int select_steady(const greedy_scheduler *s, int rank, sl_time now) {
    const greedy_rank *r = &s->rank[rank];
    int left = r->next[SL_F] < s->problem->microbatches, room = has_room(s, rank, SL_F);
    int forward = arrival(s, rank, SL_F) <= now && room,
        input = arrival(s, rank, SL_I) <= now && has_room(s, rank, SL_I);
    if (warming(s, rank))
        return forward ? SL_F : -1;
    if (s->rule->steady == SL_STRICT && !s->loose && left) {
        if (r->turn == SL_F && room)
            return forward ? SL_F : -1;
        if (r->turn == SL_I && r->next[SL_I] < r->next[SL_F])
            return input ? SL_I : -1;
    }
    if (forward && input)
        return s->rule->steady == SL_INPUT_FIRST     ? SL_I
               : s->rule->steady == SL_FORWARD_FIRST ? SL_F
                                                     : r->turn;
    return forward ? SL_F : input ? SL_I : -1;
}

/* Whether a part of W started now would end before the next F or I comes, or shortly after. */
static int fills_bubble(const greedy_scheduler *s, int rank, sl_time now) {
    sl_time forward = arrival(s, rank, SL_F), input = arrival(s, rank, SL_I);
    if (!has_room(s, rank, SL_F)) {
        if (forward <= now)
            return 1; /* memory keeps F from starting */
        forward = SL_TIME_NEVER;
    }
    sl_op op = next_weights(s, rank);
    sl_time time = sl_problem_op_time(s->problem, &op), next = forward < input ? forward : input;
    return next <= now || next - now >= time - time * s->rule->overrun / 4;
}

static int select_kind(const greedy_scheduler *s, int rank, sl_time now) {
    if (!has_weights(s, rank))
        return select_steady(s, rank, now);
    if (s->rule->weights_first)
        return SL_W;
    /* if memory blocks an F in its turn, a W is better than an I */
    if (s->rule->steady != SL_INPUT_FIRST && s->rank[rank].turn == SL_F && !has_room(s, rank, SL_F) &&
        arrival(s, rank, SL_F) <= now)
        return SL_W;
    int kind = select_steady(s, rank, now);
    return kind >= 0 ? kind : fills_bubble(s, rank, now) ? SL_W : -1;
}

/* ---- running ops ---- */

static sl_status deliver(greedy_scheduler *s, int rank, int kind, int microbatch, sl_time now) {
    int to = kind == SL_F ? rank + 1 : rank - 1;
    sl_time end = s->rank[rank].busy;
    if (to < 0)
        return SL_OK;
    if (to == s->problem->ranks) {
        s->rank[rank].ready[SL_I][microbatch] = end;
        return SL_OK;
    }
    const sl_link *link = &s->problem->link[(size_t)rank * (size_t)s->problem->ranks + (size_t)to];
    sl_windows *wire = &s->wire[s->rank[rank].wire[kind == SL_I]];
    SL_TRY(sl_windows_book(wire, now, end, link->transfer, &end));
    s->rank[to].ready[kind][microbatch] = end + link->latency;
    return sl_moments_add(&s->moments, end + link->latency, to);
}

static void append(greedy_scheduler *s, int rank, sl_op op) {
    s->order->ops[rank][s->order->count[rank]++] = op;
}

static sl_status start_whole(greedy_scheduler *s, int rank, int kind, sl_time now) {
    const sl_problem *p = s->problem;
    greedy_rank *r = &s->rank[rank];
    int m = r->next[kind]++;
    for (int part = 0; part < p->parts; part++)
        append(s, rank, (sl_op){.stage = rank, .microbatch = m, .kind = kind, .part = (int16_t)part});
    r->turn = kind == SL_F ? SL_I : SL_F;
    r->busy = now + p->time[kind][rank];
    r->memory += p->delta[kind][rank] + (kind == SL_I ? p->early[rank] : 0);
    SL_TRY(deliver(s, rank, kind, m, now));
    return sl_moments_add(&s->moments, r->busy, rank);
}

static sl_status start_weights(greedy_scheduler *s, int rank, sl_time now) {
    greedy_rank *r = &s->rank[rank];
    sl_op op = next_weights(s, rank);
    append(s, rank, op);
    r->busy = now + sl_problem_op_time(s->problem, &op);
    r->memory += sl_problem_end_memory(s->problem, &op); /* no decision is made before it ends */
    if (++r->part == s->problem->parts) {
        r->part = 0;
        r->next[SL_W]++;
    }
    return sl_moments_add(&s->moments, r->busy, rank);
}

static int finished(const greedy_scheduler *s, int rank) {
    return s->rank[rank].next[SL_W] == s->problem->microbatches;
}

/* Every rank waits for a turn or a quota that cannot come because of the others' memory. */
static sl_status loosen(greedy_scheduler *s, sl_time now) {
    int waiting = 0;
    for (int rank = 0; rank < s->problem->ranks; rank++)
        if (!finished(s, rank)) {
            if (s->loose)
                return sl_error(SL_ENONE, "rank %d gets stuck after %d of %d microbatches", rank,
                                s->rank[rank].next[SL_W], s->problem->microbatches);
            SL_TRY(sl_moments_add(&s->moments, now, rank));
            waiting = 1;
        }
    s->loose = waiting;
    return SL_OK;
}

static sl_status run(greedy_scheduler *s) {
    for (int rank = 0; rank < s->problem->ranks; rank++)
        SL_TRY(sl_moments_add(&s->moments, 0, rank));
    while (s->moments.count > 0) {
        sl_moment now = sl_moments_take(&s->moments);
        if (s->rank[now.rank].busy <= now.time) {
            int kind = select_kind(s, now.rank, now.time);
            if (kind == SL_W)
                SL_TRY(start_weights(s, now.rank, now.time));
            else if (kind >= 0)
                SL_TRY(start_whole(s, now.rank, kind, now.time));
        }
        if (s->moments.count == 0)
            SL_TRY(loosen(s, now.time));
    }
    return SL_OK;
}

/* ---- the start ---- */

/* Links that share a wire get the number of the first of them. */
static void number_wires(greedy_scheduler *s) {
    const sl_problem *p = s->problem;
    for (int lane = 0; lane < 2 * p->ranks; lane++) {
        int rank = lane / 2, peer = lane % 2 ? rank - 1 : rank + 1, found = lane;
        for (int k = 0; p->wire && peer >= 0 && peer < p->ranks && k < lane; k++) {
            int other = k / 2, its = k % 2 ? other - 1 : other + 1;
            if (its >= 0 && its < p->ranks &&
                p->wire[rank * p->ranks + peer] == p->wire[other * p->ranks + its]) {
                found = k;
                break;
            }
        }
        s->rank[rank].wire[lane % 2] = found;
    }
}

static sl_status prepare(greedy_scheduler *s) {
    const sl_problem *p = s->problem;
    size_t ranks = (size_t)p->ranks, n = (size_t)p->microbatches;
    SL_TRY(sl_alloc(&s->rank, ranks, sizeof *s->rank));
    SL_TRY(sl_alloc(&s->wire, 2 * ranks, sizeof *s->wire));
    SL_TRY(sl_alloc(&s->ready, 2 * ranks * n, sizeof *s->ready));
    for (size_t i = 0; i < 2 * ranks * n; i++)
        s->ready[i] = i < n ? 0 : SL_TIME_NEVER; /* the forwards of rank 0 are ready immediately */
    for (size_t rank = 0; rank < ranks; rank++) {
        s->rank[rank].ready[SL_F] = s->ready + 2 * rank * n;
        s->rank[rank].ready[SL_I] = s->ready + (2 * rank + 1) * n;
    }
    number_wires(s);
    return sl_order_make(p->ranks, 3 * p->microbatches * p->parts, s->order);
}

sl_status sl_phases_order(const sl_problem *problem, const sl_phase_rule *rule, sl_order *order) {
    greedy_scheduler s = {.problem = problem, .rule = rule, .order = order};
    *order = (sl_order){0};
    sl_status status = prepare(&s);
    SL_THEN(status, run(&s));
    for (int i = 0; s.wire && i < 2 * problem->ranks; i++)
        sl_windows_free(&s.wire[i]);
    sl_moments_free(&s.moments);
    SL_FREE(s.rank, s.wire, s.ready);
    if (status != SL_OK)
        sl_order_free(order);
    return status;
}
