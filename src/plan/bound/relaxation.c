#include "plan/bound/relaxation.h"
#include "base/memory.h"

#include <math.h>

/* A pair saves half of its stages' savings, so F and B are each shortened by a quarter of both. */
static void relax_times(sl_relaxation *r) {
    const sl_problem *p = r->problem;
    for (int s = 0; s < p->stages; s++) {
        sl_time half = p->saved[s] > 0 ? (p->saved[s] + 1) / 2 : 0;
        sl_time full = sl_later(p->time[SL_B][s] - half, 0), input = sl_sooner(p->time[SL_I][s], full);
        r->time[SL_F][s] = sl_later(p->time[SL_F][s] - half, 0);
        r->time[SL_I][s] = input;
        r->time[SL_W][s] = sl_sooner(p->time[SL_I][s] + p->time[SL_W][s], full) - input;
    }
}

/* B represents I and W, unless it is never better: then the memory that I itself takes can be counted. */
sl_stage_memory sl_relaxation_memory(const sl_problem *p, int s) {
    double input = p->delta[SL_I][s] + p->early[s], both = input + p->delta[SL_W][s],
           full = p->delta[SL_B][s] + p->early[s];
    return (sl_stage_memory){.forward = p->delta[SL_F][s],
                             .input = fmin(0, input),
                             .backward = fmin(0, fmin(fmin(input, both), full))};
}

/* The receiver of a stage's messages of a kind; -1: none, or the same rank. */
static int receiver(const sl_problem *p, int stage, int kind) {
    int to = kind == SL_F ? sl_problem_next(p, stage) : sl_problem_previous(p, stage);
    return to < 0 || sl_problem_rank(p, to) == sl_problem_rank(p, stage) ? -1 : sl_problem_rank(p, to);
}

static sl_time delay_of(const sl_problem *p, int stage, int kind) {
    int to = receiver(p, stage, kind);
    const sl_link *link = to < 0 ? NULL : &p->link[sl_problem_rank(p, stage) * p->ranks + to];
    return link ? link->latency + link->transfer : 0;
}

/* Batched: the rank runs nothing else while a message is under way, so its delay is part of the op. The two
 * messages of a pair are under way together, so only F's or only I's count on each rank, whichever holds it
 * longer. A full backward at the very end of a rank is counted with its message, although nothing waits for
 * that one: `excess`. */
static void hold_ranks(sl_relaxation *r) {
    const sl_problem *p = r->problem;
    for (int rank = 0; rank < p->ranks; rank++) {
        sl_time sum[2] = {0, 0};
        for (int s = 0; s < p->stages; s++)
            for (int kind = SL_F; kind <= SL_I && sl_problem_rank(p, s) == rank; kind++)
                sum[kind] += delay_of(p, s, kind) * r->count[s];
        r->held[2 * rank + (sum[SL_I] > sum[SL_F])] = 1;
    }
    for (int s = 0; s < p->stages; s++)
        for (int kind = SL_F; kind <= SL_I; kind++)
            if (r->held[2 * sl_problem_rank(p, s) + kind]) {
                r->time[kind][s] += delay_of(p, s, kind);
                r->excess = kind == SL_I ? sl_later(r->excess, delay_of(p, s, kind)) : r->excess;
            }
}

/* Whether a message leaves only when the one before it from its rank to the same peer has arrived: inorder
 * with one slot; fifo, since both ends are done then, where those messages share a communicator. */
static int one_at_a_time(const sl_problem *p) {
    if (p->wire)
        return 0;
    if (p->communication == SL_FIFO)
        return p->eager <= 0 && (p->communicators != SL_OF_KIND || p->placement == SL_LINEAR);
    return p->communication == SL_INORDER && p->queue == 1;
}

static void set_links(sl_relaxation *r) {
    const sl_problem *p = r->problem;
    int one = one_at_a_time(p);
    for (int i = 0; i < p->ranks * p->ranks; i++)
        r->link[i] = one ? (sl_link){.transfer = p->link[i].transfer + p->link[i].latency} : p->link[i];
    if (p->communication == SL_BATCHED)
        hold_ranks(r);
}

sl_link sl_relaxation_link(const sl_relaxation *r, int from, int to, int kind) {
    int a = sl_problem_rank(r->problem, from), b = sl_problem_rank(r->problem, to);
    return a == b || r->held[2 * a + kind] ? (sl_link){0}
                                           : r->link[(size_t)a * (size_t)r->problem->ranks + (size_t)b];
}

static int same_pipeline(const sl_problem *p, int a, int b) {
    return p->placement != SL_BIDIRECTIONAL || (a < p->ranks) == (b < p->ranks);
}

/* The smallest n in 0..most with base + n * each <= limit (each < 0); most + 1 if there is none. */
static int min_count(double base, double each, double limit, int most) {
    if (base <= limit)
        return 0;
    if (each >= 0)
        return most + 1;
    double n = ceil((base - limit) / -each * (1 - 1e-12));
    return n > most ? most + 1 : (int)n;
}

/* When F_k of stage s starts, the stages before it on the same rank have also run F_k, and no more of their I
 * than this stage has; the minimum memory of the stages after it is zero. */
static void count_needs(sl_relaxation *r, int s) {
    const sl_problem *p = r->problem;
    int rank = sl_problem_rank(p, s), base = r->first[s] / 3;
    double forward = 0, backward = 0, others = 0, limit = sl_problem_room(p, rank) * (1 + 1e-9) + 1e-12;
    sl_stage_memory own = sl_relaxation_memory(p, s);
    for (int before = s; before >= 0; before--)
        if (sl_problem_rank(p, before) == rank && same_pipeline(p, before, s)) {
            sl_stage_memory m = sl_relaxation_memory(p, before);
            double kept = m.forward + m.backward;
            if (before != s && (m.forward <= 0 || kept < 0))
                continue; /* more of them would only free memory */
            forward += m.forward;
            backward += m.backward;
            others += before != s ? m.backward : 0;
        }
    for (int k = 0; k < r->count[s]; k++) {
        double held = (k + 1) * forward;
        int inputs = min_count(held, backward, limit, k);
        int weights = min_count(held + k * (others + own.input), own.backward - own.input, limit, k);
        if ((inputs > k || weights > k) && !r->impossible) {
            r->impossible = 1;
            r->impossible_rank = rank;
            r->impossible_memory = held + k * backward;
        }
        r->needs_i[base + k] = inputs > k ? k : inputs;
        r->needs_w[base + k] = weights > k ? k : weights;
    }
}

/* The inverse: the first F that waits for the j-th I (W). */
static void count_frees(sl_relaxation *r, int s) {
    int base = r->first[s] / 3, n = r->count[s];
    for (int j = 0, i = 0, w = 0; j < n; j++) {
        while (i < n && r->needs_i[base + i] <= j)
            i++;
        while (w < n && r->needs_w[base + w] <= j)
            w++;
        r->frees_i[base + j] = i;
        r->frees_w[base + j] = w;
    }
}

/* ---- heads and tails ---- */

/* Prefixes (or suffixes) of chains of ops on one rank that must come before (after) an op. */
#define MAX_CHAINS 64
#define FAR (-(INT64_MAX / 2)) /* below 0 even if the longest iteration is added */
typedef struct chain {
    const sl_time *value; /* heads, ascending, or tails, descending: the far end first */
    sl_time time;
    int at, step, left;
} chain;

/* One machine runs them all, in any order: max over thresholds t of t + the work of those with value >= t.
 * `work` is the sum of all, for stopping early. */
static sl_time completion(chain *chains, int count, sl_time work) {
    sl_time best = FAR, done = 0;
    for (;;) {
        chain *next = NULL;
        for (int c = 0; c < count; c++)
            if (chains[c].left > 0 && (!next || chains[c].value[chains[c].at] > next->value[next->at]))
                next = &chains[c];
        if (!next || next->value[next->at] + work <= best)
            return best;
        done += next->time;
        best = sl_later(best, next->value[next->at] + done);
        next->at += next->step;
        next->left--;
    }
}

typedef struct relaxation_pass {
    sl_relaxation *r;
    sl_stage_memory *memory; /* [stages] */
    int **stages_of;         /* [ranks] its stages, then -1 */
    int deep;                /* count machines too; else longest paths only */
    sl_time *link;           /* [stages * 2] time at which the last message of F (I) of a stage has left */
} relaxation_pass;

static void add_chain(chain *chains, int *count, sl_time *work, const sl_relaxation *r, const sl_time *value,
                      int stage, int kind, int from, int to, int ascending) {
    if (to <= from || *count == MAX_CHAINS || r->time[kind][stage] == 0)
        return;
    int node = sl_relaxation_node(r, stage, kind, 0);
    chains[(*count)++] = (chain){.value = value + node,
                                 .time = r->time[kind][stage],
                                 .at = ascending ? to - 1 : from,
                                 .step = ascending ? -1 : 1,
                                 .left = to - from};
    *work += r->time[kind][stage] * (to - from);
}

/* Work that must have ended on the rank before op (stage, kind, k) starts. */
static sl_time machine_head(const relaxation_pass *p, int stage, int kind, int k) {
    const sl_relaxation *r = p->r;
    chain chains[MAX_CHAINS];
    int count = 0, base = r->first[stage] / 3;
    sl_time work = 0;
    int inputs = kind == SL_F ? r->needs_i[base + k] : kind == SL_I ? k : k + 1;
    int weights = kind == SL_W ? k : r->needs_w[base + k];
    add_chain(chains, &count, &work, r, r->head, stage, SL_I, 0, inputs, 1);
    add_chain(chains, &count, &work, r, r->head, stage, SL_W, 0, weights, 1);
    for (const int *s = p->stages_of[sl_problem_rank(r->problem, stage)]; *s >= 0; s++) {
        if (!same_pipeline(r->problem, *s, stage))
            continue;
        int forwards = *s == stage ? (kind == SL_F ? k : k + 1) : kind != SL_F || *s < stage ? k + 1 : 0;
        add_chain(chains, &count, &work, r, r->head, *s, SL_F, 0, forwards, 1);
        if (*s > stage) /* its I comes before this stage's */
            add_chain(chains, &count, &work, r, r->head, *s, SL_I, 0, kind == SL_F ? inputs : k + 1, 1);
    }
    return completion(chains, count, work);
}

/* Work that must still run on the rank after op (stage, kind, k). */
static sl_time machine_tail(const relaxation_pass *p, int stage, int kind, int k) {
    const sl_relaxation *r = p->r;
    chain chains[MAX_CHAINS];
    int count = 0, base = r->first[stage] / 3, n = r->count[stage];
    sl_time work = 0;
    int forwards = kind == SL_F ? k + 1 : kind == SL_I ? r->frees_i[base + k] : r->frees_w[base + k];
    int inputs = kind == SL_F ? k : kind == SL_I ? k + 1 : forwards;
    int weights = kind == SL_W ? k + 1 : kind == SL_I ? k : k;
    add_chain(chains, &count, &work, r, r->tail, stage, SL_F, forwards, n, 0);
    add_chain(chains, &count, &work, r, r->tail, stage, SL_W, weights, n, 0);
    add_chain(chains, &count, &work, r, r->tail, stage, SL_I, inputs, n, 0);
    for (const int *s = p->stages_of[sl_problem_rank(r->problem, stage)]; *s >= 0 && kind != SL_W; s++) {
        if (*s == stage || !same_pipeline(r->problem, *s, stage))
            continue;
        if (kind == SL_F && *s > stage)
            add_chain(chains, &count, &work, r, r->tail, *s, SL_F, k, n, 0);
        if (kind == SL_F || *s < stage) {
            add_chain(chains, &count, &work, r, r->tail, *s, SL_I, k, n, 0);
            add_chain(chains, &count, &work, r, r->tail, *s, SL_W, k, n, 0);
        }
    }
    return completion(chains, count, work);
}

/* ---- memory that the stages of a rank share ---- */

/* Ops that each release or take memory, the first or last ones of a stage and kind first. */
typedef struct memory_chain {
    const sl_time *value;
    sl_time time;
    double amount;
    int at, step, left;
} memory_chain;

/* The least time, or tail, at which ops of the chains have moved `needed` altogether. */
static sl_time time_of_amount(memory_chain *chains, int count, double needed) {
    sl_time last = FAR;
    while (needed > 0) {
        memory_chain *next = NULL;
        for (int c = 0; c < count; c++)
            if (chains[c].left > 0 && (!next || chains[c].value[chains[c].at] + chains[c].time <
                                                    next->value[next->at] + next->time))
                next = &chains[c];
        if (!next)
            return last;
        last = next->value[next->at] + next->time;
        needed -= next->amount;
        next->at += next->step;
        next->left--;
    }
    return last;
}

/* Stages of the rank that have run F as often as this one, and I no more often. */
static int comes_before(const relaxation_pass *p, int before, int stage) {
    const sl_stage_memory *m = &p->memory[before];
    return before == stage || (before < stage && same_pipeline(p->r->problem, before, stage) &&
                               m->forward > 0 && m->forward + m->backward >= 0);
}

static double limit_of(const relaxation_pass *p, int stage) {
    const sl_problem *problem = p->r->problem;
    return sl_problem_room(problem, sl_problem_rank(problem, stage)) * (1 + 1e-9) + 1e-12;
}

/* When F_k starts, these stages have taken memory for k + 1 microbatches, and enough must be free again. */
static sl_time release_head(const relaxation_pass *p, int stage, int k) {
    const sl_relaxation *r = p->r;
    memory_chain chains[MAX_CHAINS];
    double needed = -limit_of(p, stage);
    int count = 0;
    for (const int *s = p->stages_of[sl_problem_rank(r->problem, stage)]; *s >= 0; s++) {
        const sl_stage_memory *m = &p->memory[*s];
        if (!comes_before(p, *s, stage))
            continue;
        needed += (k + 1) * m->forward;
        for (int kind = SL_I; kind <= SL_W; kind++) {
            double amount = kind == SL_I ? -m->input : m->input - m->backward;
            if (amount > 0)
                chains[count++] = (memory_chain){.value = r->head + sl_relaxation_node(r, *s, kind, 0),
                                                 .time = r->time[kind][*s],
                                                 .amount = amount,
                                                 .step = 1,
                                                 .left = k};
        }
    }
    return time_of_amount(chains, count, needed);
}

/* Until I_k ends, no more than k microbatches have left these stages, so many F have to come. */
static sl_time refill_tail(const relaxation_pass *p, int stage, int k) {
    const sl_relaxation *r = p->r;
    memory_chain chains[MAX_CHAINS];
    double needed = -limit_of(p, stage);
    int count = 0, n = r->count[stage];
    for (const int *s = p->stages_of[sl_problem_rank(r->problem, stage)]; *s >= 0; s++) {
        double forward = p->memory[*s].forward;
        if (!comes_before(p, *s, stage) || forward <= 0)
            continue;
        needed += n * forward + k * p->memory[*s].backward;
        chains[count++] = (memory_chain){.value = r->tail + sl_relaxation_node(r, *s, SL_F, 0),
                                         .time = r->time[SL_F][*s],
                                         .amount = forward,
                                         .at = n - 1,
                                         .step = -1,
                                         .left = n - 1 - k};
    }
    return time_of_amount(chains, count, needed);
}

static sl_time chain_end(const sl_relaxation *r, int stage, int kind, int k) {
    return k < 0 ? r->begin[stage] : r->head[sl_relaxation_node(r, stage, kind, k)] + r->time[kind][stage];
}

/* Arrival of the k-th message that stage `from` sends: the messages before it have left the link. */
static sl_time arrival(relaxation_pass *p, int from, int to, int kind, int k) {
    sl_link link = sl_relaxation_link(p->r, from, to, kind);
    sl_time *left = &p->link[2 * from + (kind == SL_F ? 0 : 1)];
    *left = sl_later(*left, chain_end(p->r, from, kind, k)) + link.transfer;
    return *left + link.latency;
}

static void set_head(relaxation_pass *p, int stage, int kind, int k, sl_time head) {
    if (p->deep)
        head = sl_later(head, machine_head(p, stage, kind, k));
    p->r->head[sl_relaxation_node(p->r, stage, kind, k)] = head;
}

/* A first F of a stage waits for its gather; time counts from the first F of stage 0, which waits for its
 * own. Two pipelines may begin at either end, so gathers are ignored for them. */
static sl_time gather_head(const sl_problem *p, int stage) {
    return p->placement == SL_BIDIRECTIONAL ? 0 : sl_later(0, p->gather[stage] - p->gather[0]);
}

static void forward_heads(relaxation_pass *p, int k) {
    sl_relaxation *r = p->r;
    const sl_problem *problem = r->problem;
    for (int s = 0; s < problem->stages; s++) {
        int base = r->first[s] / 3, before = sl_problem_previous(problem, s);
        if (k >= r->count[s])
            continue;
        sl_time head = chain_end(r, s, SL_F, k - 1);
        if (k == 0 && r->window < 0)
            head = sl_later(head, gather_head(problem, s));
        head = sl_later(head, chain_end(r, s, SL_I, r->needs_i[base + k] - 1));
        head = sl_later(head, chain_end(r, s, SL_W, r->needs_w[base + k] - 1));
        if (before >= 0)
            head = sl_later(head, arrival(p, before, s, SL_F, k));
        if (p->memory)
            head = sl_later(head, release_head(p, s, k));
        set_head(p, s, SL_F, k, head);
    }
}

static void backward_heads(relaxation_pass *p, int k) {
    sl_relaxation *r = p->r;
    const sl_problem *problem = r->problem;
    for (int s = problem->stages - 1; s >= 0; s--) {
        int after = sl_problem_next(problem, s);
        if (k >= r->count[s])
            continue;
        sl_time head = sl_later(chain_end(r, s, SL_I, k - 1), chain_end(r, s, SL_F, k));
        if (after >= 0)
            head = sl_later(head, arrival(p, after, s, SL_I, k));
        set_head(p, s, SL_I, k, head);
        set_head(p, s, SL_W, k, sl_later(chain_end(r, s, SL_W, k - 1), chain_end(r, s, SL_I, k)));
    }
}

/* From the start of an op to the end of everything. */
static sl_time chain_tail(const sl_relaxation *r, int stage, int kind, int k) {
    return k >= r->count[stage] ? r->end[stage]
                                : r->tail[sl_relaxation_node(r, stage, kind, k)] + r->time[kind][stage];
}

/* From the end of the producer, over the link; the later messages need the link after this one. */
static sl_time message_tail(relaxation_pass *p, int from, int to, int kind, int k) {
    sl_link link = sl_relaxation_link(p->r, from, to, kind);
    sl_time *left = &p->link[2 * from + (kind == SL_F ? 0 : 1)];
    *left = link.transfer + sl_later(*left, link.latency + chain_tail(p->r, to, kind, k));
    return *left;
}

static void set_tail(relaxation_pass *p, int stage, int kind, int k, sl_time tail) {
    if (p->deep)
        tail = sl_later(tail, machine_tail(p, stage, kind, k));
    p->r->tail[sl_relaxation_node(p->r, stage, kind, k)] = tail;
}

static void backward_tails(relaxation_pass *p, int k) {
    sl_relaxation *r = p->r;
    const sl_problem *problem = r->problem;
    for (int s = 0; s < problem->stages; s++) {
        int base = r->first[s] / 3, before = sl_problem_previous(problem, s), n = r->count[s];
        if (k >= n)
            continue;
        sl_time tail = chain_tail(r, s, SL_W, k + 1);
        if (k == n - 1 && r->window < 0)
            tail = sl_later(tail, problem->reduce[s]);
        set_tail(p, s, SL_W, k, sl_later(tail, chain_tail(r, s, SL_F, r->frees_w[base + k])));
        tail = sl_later(chain_tail(r, s, SL_I, k + 1), chain_tail(r, s, SL_W, k));
        tail = sl_later(tail, chain_tail(r, s, SL_F, r->frees_i[base + k]));
        if (before >= 0)
            tail = sl_later(tail, message_tail(p, s, before, SL_I, k));
        if (p->memory)
            tail = sl_later(tail, refill_tail(p, s, k));
        set_tail(p, s, SL_I, k, tail);
    }
}

static void forward_tails(relaxation_pass *p, int k) {
    sl_relaxation *r = p->r;
    for (int s = r->problem->stages - 1; s >= 0; s--) {
        int after = sl_problem_next(r->problem, s);
        if (k >= r->count[s])
            continue;
        sl_time tail = sl_later(chain_tail(r, s, SL_F, k + 1), chain_tail(r, s, SL_I, k));
        if (after >= 0)
            tail = sl_later(tail, message_tail(p, s, after, SL_F, k));
        set_tail(p, s, SL_F, k, tail);
    }
}

static void clear_links(relaxation_pass *p) {
    for (int i = 0; i < 2 * p->r->problem->stages; i++)
        p->link[i] = FAR;
}

static void fill(relaxation_pass *p) {
    int most = p->r->problem->microbatches;
    clear_links(p);
    for (int k = 0; k < most; k++) {
        forward_heads(p, k);
        backward_heads(p, k);
    }
    clear_links(p);
    for (int k = most - 1; k >= 0; k--) {
        backward_tails(p, k);
        forward_tails(p, k);
    }
}

/* ---- all heads and tails ---- */

static sl_status make_arrays(const sl_problem *p, sl_relaxation *r) {
    size_t stages = (size_t)p->stages;
    SL_TRY(sl_alloc(&r->link, (size_t)p->ranks * (size_t)p->ranks, sizeof *r->link));
    SL_TRY(sl_alloc(&r->held, 2 * (size_t)p->ranks, 1));
    SL_TRY(sl_alloc(&r->first, stages, sizeof *r->first));
    SL_TRY(sl_alloc(&r->count, stages, sizeof *r->count));
    for (int kind = 0; kind < 3; kind++)
        SL_TRY(sl_alloc(&r->time[kind], stages, sizeof **r->time));
    for (int s = 0; s < p->stages; s++) {
        r->first[s] = r->nodes;
        r->count[s] = sl_problem_microbatches(p, s);
        r->nodes += 3 * r->count[s];
    }
    int **const counts[] = {&r->needs_i, &r->needs_w, &r->frees_i, &r->frees_w};
    for (int i = 0; i < 4; i++)
        SL_TRY(sl_alloc(counts[i], (size_t)r->nodes / 3, sizeof(int)));
    SL_TRY(sl_alloc(&r->begin, stages, sizeof *r->begin));
    SL_TRY(sl_alloc(&r->end, stages, sizeof *r->end));
    SL_TRY(sl_alloc(&r->head, (size_t)r->nodes, sizeof *r->head));
    return sl_alloc(&r->tail, (size_t)r->nodes, sizeof *r->tail);
}

static sl_status make_pass(sl_relaxation *r, int deep, relaxation_pass *p) {
    const sl_problem *problem = r->problem;
    int *stages;
    *p = (relaxation_pass){.r = r};
    SL_TRY(sl_alloc(&p->link, 2 * (size_t)problem->stages, sizeof *p->link));
    SL_TRY(sl_alloc(&p->stages_of, (size_t)problem->ranks, sizeof *p->stages_of));
    SL_TRY(sl_alloc(&stages, (size_t)problem->stages + (size_t)problem->ranks, sizeof *stages));
    for (int rank = 0; rank < problem->ranks; rank++) {
        p->stages_of[rank] = stages;
        for (int s = 0; s < problem->stages; s++)
            if (sl_problem_rank(problem, s) == rank)
                *stages++ = s;
        *stages++ = -1;
    }
    /* Every op considers the others of its rank: affordable up to some 10^8 of them. */
    int64_t looks = 0;
    for (int s = 0; s < problem->stages; s++)
        looks += 9 * (int64_t)r->count[s] * r->count[s] * problem->stages / problem->ranks;
    p->deep = deep && looks < 100 * 1000 * 1000 && 3 * problem->stages / problem->ranks <= MAX_CHAINS;
    if (!p->deep || !problem->limit || problem->stages == problem->ranks)
        return SL_OK;
    SL_TRY(sl_alloc(&p->memory, (size_t)problem->stages, sizeof *p->memory));
    for (int s = 0; s < problem->stages; s++)
        p->memory[s] = sl_relaxation_memory(problem, s);
    return SL_OK;
}

static void free_pass(relaxation_pass *p) {
    if (p->stages_of)
        sl_free(p->stages_of[0]);
    SL_FREE(p->stages_of, p->link, p->memory);
}

/* `late`: tails of the ranks' last ops, [ranks]; NULL: 0. */
static sl_status make(const sl_problem *problem, int window, const sl_time *late, int deep,
                      sl_relaxation *r) {
    relaxation_pass p = {0};
    *r = (sl_relaxation){.problem = problem, .window = window};
    sl_status status = make_arrays(problem, r);
    SL_THEN(status, make_pass(r, deep, &p));
    if (status == SL_OK) {
        for (int s = 0; s < problem->stages; s++) {
            int rank = sl_problem_rank(problem, s), apart = window >= 0 && rank != window;
            r->begin[s] = apart ? FAR : 0;
            r->end[s] = apart ? FAR : late ? late[rank] : 0;
        }
        r->deep = p.deep;
        relax_times(r);
        set_links(r);
        for (int s = 0; s < problem->stages && problem->limit; s++)
            count_needs(r, s);
        for (int s = 0; s < problem->stages; s++)
            count_frees(r, s);
        fill(&p);
    }
    free_pass(&p);
    if (status != SL_OK)
        sl_relaxation_free(r);
    return status;
}

sl_status sl_relaxation_make(const sl_problem *problem, int deep, sl_relaxation *r) {
    return make(problem, -1, NULL, deep, r);
}

sl_status sl_relaxation_make_window(const sl_problem *problem, int rank, int deep, sl_relaxation *r) {
    return make(problem, rank, NULL, deep, r);
}

/* How much later than the first op of rank 0 that of each rank can be, taken from the latest. */
static void find_late(const sl_relaxation *r, sl_time *late) {
    sl_time latest = 0;
    for (int rank = 0; rank < r->problem->ranks; rank++) {
        late[rank] = SL_TIME_NEVER;
        for (int s = 0; s < r->problem->stages; s++)
            if (sl_problem_rank(r->problem, s) == rank && r->count[s] > 0)
                late[rank] = sl_sooner(late[rank], r->head[sl_relaxation_node(r, s, SL_F, 0)]);
        late[rank] = late[rank] == SL_TIME_NEVER ? 0 : late[rank];
        latest = sl_later(latest, late[rank]);
    }
    for (int rank = 0; rank < r->problem->ranks; rank++)
        late[rank] = latest - late[rank];
}

sl_status sl_relaxation_make_skewed(const sl_problem *problem, int deep, sl_relaxation *r) {
    sl_time *late;
    *r = (sl_relaxation){0};
    SL_TRY(sl_alloc(&late, (size_t)problem->ranks, sizeof *late));
    sl_status status = make(problem, -1, NULL, 0, r);
    if (status == SL_OK) {
        find_late(r, late);
        sl_relaxation_free(r);
        status = make(problem, -1, late, deep, r);
    }
    sl_free(late);
    return status;
}

void sl_relaxation_free(sl_relaxation *r) {
    SL_FREE(r->link, r->held, r->first, r->count, r->begin, r->end);
    for (int kind = 0; kind < 3; kind++)
        sl_free(r->time[kind]);
    SL_FREE(r->needs_i, r->needs_w, r->frees_i, r->frees_w, r->head, r->tail);
    *r = (sl_relaxation){0};
}
