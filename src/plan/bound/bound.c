#include "plan/bound/bound.h"
#include "base/memory.h"
#include "plan/bound/machine.h"
#include "plan/bound/occupancy.h"

static sl_job_chain ops_of(const sl_relaxation *r, int stage, int kind) {
    int node = sl_relaxation_node(r, stage, kind, 0), first = 0, end = r->count[stage];
    while (first < end && r->head[node + first] < 0)
        first++;
    while (end > first && r->tail[node + end - 1] < 0)
        end--;
    return (sl_job_chain){.head = r->head + node,
                          .tail = r->tail + node,
                          .time = r->time[kind][stage],
                          .next = first,
                          .count = end};
}

/* The messages that F or I of a stage sends to another rank; count 0: none. */
static sl_job_chain messages_of(const sl_relaxation *r, int stage, int kind, int *wire) {
    const sl_problem *p = r->problem;
    int to = kind == SL_F ? sl_problem_next(p, stage) : sl_problem_previous(p, stage);
    if (to < 0 || sl_problem_rank(p, to) == sl_problem_rank(p, stage))
        return (sl_job_chain){0};
    size_t at = (size_t)sl_problem_rank(p, stage) * (size_t)p->ranks + (size_t)sl_problem_rank(p, to);
    sl_link link = sl_relaxation_link(r, stage, to, kind);
    *wire = p->wire ? p->wire[at] : (int)at;
    return (sl_job_chain){.head = r->head + sl_relaxation_node(r, stage, kind, 0),
                          .tail = r->tail + sl_relaxation_node(r, to, kind, 0),
                          .before = r->time[kind][stage],
                          .time = link.transfer,
                          .after = link.latency + r->time[kind][to],
                          .count = link.transfer > 0 ? r->count[stage] : 0};
}

static sl_time rank_bound(const sl_relaxation *r, int rank, sl_job_chain *chains) {
    int count = 0;
    for (int s = 0; s < r->problem->stages; s++)
        for (int kind = SL_F; kind <= SL_W && sl_problem_rank(r->problem, s) == rank; kind++)
            chains[count++] = ops_of(r, s, kind);
    return sl_preemptive_bound(chains, count);
}

/* The wire that chain `i` (stage * 2 + direction) occupies, with all others on it that come later. */
static sl_time wire_bound(const sl_relaxation *r, int i, sl_job_chain *chains) {
    int wire = -1, other = -1, count = 0;
    sl_job_chain first = messages_of(r, i / 2, i % 2 ? SL_I : SL_F, &wire);
    if (first.count == 0)
        return 0;
    for (int k = 0; k < 2 * r->problem->stages; k++) {
        sl_job_chain chain = messages_of(r, k / 2, k % 2 ? SL_I : SL_F, &other);
        if (chain.count == 0 || other != wire)
            continue;
        if (k < i)
            return 0; /* already counted with that one */
        chains[count++] = chain;
    }
    return sl_preemptive_bound(chains, count);
}

/* Fifo: the communicator of a rank for its messages with `peer`, or for all (-1). One that is not eager holds
 * it until it has arrived. */
static sl_time communicator_bound(const sl_relaxation *r, int rank, int peer, sl_job_chain *chains) {
    const sl_problem *p = r->problem;
    int count = 0;
    for (int i = 0; i < 2 * p->stages; i++) {
        int stage = i / 2, kind = i % 2 ? SL_I : SL_F;
        int next = kind == SL_F ? sl_problem_next(p, stage) : sl_problem_previous(p, stage);
        int from = sl_problem_rank(p, stage), to = next < 0 ? from : sl_problem_rank(p, next);
        if (from == to || (from != rank && to != rank) || (peer >= 0 && from != peer && to != peer))
            continue;
        sl_link link = sl_relaxation_link(r, stage, next, kind);
        if (link.transfer + link.latency > 0)
            chains[count++] = (sl_job_chain){.head = r->head + sl_relaxation_node(r, stage, kind, 0),
                                             .tail = r->tail + sl_relaxation_node(r, next, kind, 0),
                                             .before = r->time[kind][stage],
                                             .time = link.transfer + link.latency,
                                             .after = r->time[kind][next],
                                             .count = r->count[stage]};
    }
    return sl_preemptive_bound(chains, count);
}

static sl_time communicators_bound(const sl_relaxation *r, sl_job_chain *chains) {
    const sl_problem *p = r->problem;
    sl_time bound = 0;
    if (p->communication != SL_FIFO || p->eager > 0 || p->communicators > SL_OF_PAIR)
        return 0;
    for (int rank = 0; rank < p->ranks; rank++)
        bound = sl_later(
            bound,
            communicator_bound(r, rank, p->communicators == SL_OF_PAIR ? (rank + 1) % p->ranks : -1, chains));
    return bound;
}

sl_status sl_relaxation_bound(const sl_relaxation *r, sl_time *bound) {
    sl_job_chain *chains;
    SL_TRY(sl_alloc(&chains, 3 * (size_t)r->problem->stages, sizeof *chains));
    *bound = 0;
    for (int rank = 0; rank < r->problem->ranks; rank++)
        *bound = sl_later(*bound, rank_bound(r, rank, chains));
    for (int i = 0; i < 2 * r->problem->stages && r->window < 0; i++)
        *bound = sl_later(*bound, wire_bound(r, i, chains));
    if (r->window < 0)
        *bound = sl_later(*bound, communicators_bound(r, chains));
    sl_free(chains);
    SL_TRY(sl_occupancy_bound(r, bound));
    *bound = sl_later(*bound - r->excess, 0);
    return SL_OK;
}

/* ---- makespan ---- */

/* The batched regime's bound omits one message's delay, so the decoupled one may be larger. */
static sl_status makespan_bound(const sl_problem *p, int deep, sl_time *bound) {
    sl_relaxation r;
    sl_time held = 0;
    sl_problem free_ranks = *p;
    *bound = 0;
    if (p->communication != SL_DECOUPLED) {
        SL_TRY(sl_relaxation_make(p, deep, &r));
        sl_status status = sl_relaxation_bound(&r, &held);
        sl_relaxation_free(&r);
        SL_TRY(status);
    }
    free_ranks.communication = SL_DECOUPLED;
    SL_TRY(sl_relaxation_make(&free_ranks, deep, &r));
    sl_status status = sl_relaxation_bound(&r, bound);
    sl_relaxation_free(&r);
    *bound = sl_later(*bound, held);
    return status;
}

/* ---- span and period ---- */

#define MANY_NODES 20000000 /* of all windows together */

static sl_status window_bound(const sl_problem *p, int rank, int deep, sl_time *bound) {
    sl_relaxation r;
    sl_time mine;
    SL_TRY(sl_relaxation_make_window(p, rank, deep, &r));
    sl_status status = sl_relaxation_bound(&r, &mine);
    sl_relaxation_free(&r);
    *bound = status == SL_OK ? sl_later(*bound, mine) : *bound;
    return status;
}

/* The last op of a rank never ends sooner after its first one begins. Every window, if that is affordable;
 * else that of the first rank, and all ranks' work. */
static sl_status span_bound(const sl_problem *problem, int deep, sl_time *bound) {
    sl_problem p = *problem;
    double n = p.microbatches * (double)p.stages, nodes = 3 * n * p.ranks;
    p.communication = SL_DECOUPLED; /* the others only add waiting */
    for (int rank = 0; rank < p.ranks; rank++)
        if (rank == 0 || nodes < MANY_NODES)
            SL_TRY(window_bound(&p, rank, deep && 9 * n * n < MANY_NODES, bound));
    return SL_OK;
}

static sl_time least_work(const sl_problem *p, int stage) {
    sl_time half = p->saved[stage] > 0 ? (p->saved[stage] + 1) / 2 : 0,
            both = p->time[SL_I][stage] + p->time[SL_W][stage], full = p->time[SL_B][stage] - half,
            work = p->time[SL_F][stage] - half + sl_sooner(both, sl_later(full, 0));
    return sl_later(work, 0) * sl_problem_microbatches(p, stage);
}

/* What happens once in every iteration and one after the other. A stage without microbatches is not used. */
static sl_time cycles_bound(const sl_problem *p) {
    sl_time bound = 0;
    int update = p->synchronization == SL_SYNC_UPDATE;
    for (int rank = 0; rank < p->ranks; rank++) {
        sl_time collectives = 0, work = 0;
        for (int s = 0; s < p->stages; s++)
            if (sl_problem_rank(p, s) == rank && sl_problem_microbatches(p, s) > 0) {
                sl_time mine = least_work(p, s), both = p->gather[s] + p->reduce[s];
                collectives += both;
                work += mine;
                bound = sl_later(bound, update ? mine + both : mine + p->gather[s]);
            }
        bound = sl_later(bound, sl_later(collectives, work));
    }
    for (int s = 0; s < p->stages; s++)
        for (int kind = SL_F; kind <= SL_I; kind++) {
            int next = kind == SL_F ? sl_problem_next(p, s) : sl_problem_previous(p, s),
                from = sl_problem_rank(p, s), to = next < 0 ? from : sl_problem_rank(p, next);
            bound = sl_later(bound, sl_problem_microbatches(p, s) * p->link[from * p->ranks + to].transfer);
        }
    return bound;
}

/* A norm ends an iteration before the next one begins, with the gather of the first stage. */
static sl_status period_bound(const sl_problem *p, int deep, sl_time *bound) {
    if (p->synchronization == SL_SYNC_NORM) {
        SL_TRY(makespan_bound(p, deep, bound));
        *bound += p->placement == SL_BIDIRECTIONAL ? 0 : p->gather[0];
        return SL_OK;
    }
    SL_TRY(span_bound(p, deep, bound));
    *bound = sl_later(*bound, cycles_bound(p));
    return SL_OK;
}

sl_status sl_lower_bound(const sl_problem *p, int deep, sl_time *bound) {
    *bound = 0;
    switch (p->objective) {
    case SL_SPAN:
        return span_bound(p, deep, bound);
    case SL_PERIOD:
        return period_bound(p, deep, bound);
    default:
        return makespan_bound(p, deep, bound);
    }
}
