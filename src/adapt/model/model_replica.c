/* A replica in the current layout, and its time: its healthy problem with ops slowed by their devices, links
 * by the connections that carry their messages, and sums by their slowest pair. */
#include "adapt/model/model_inside.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

/* ---- slowdown of a process, a pair, a position, a sum ---- */

static void worsen(double more[2], double latency, double pace) {
    more[0] = fmax(more[0], latency);
    more[1] = fmax(more[1], pace);
}

void sl_model_pair(const sl_model *m, int from, int to, double more[2]) {
    more[0] = more[1] = 0;
    for (int end = m->first[from]; end; end = m->next[end - 1]) {
        const sl_slow_part *p = &m->part[(end - 1) / 2];
        int way = (end - 1) % 2; /* links: from a is [0] */
        if (p->kind == SL_PART_CARD || (p->kind == SL_PART_LINK && (way ? p->a : p->b) == to))
            worsen(more, p->latency[way], p->pace[way]);
    }
    for (int end = m->first[to]; end; end = m->next[end - 1]) {
        const sl_slow_part *p = &m->part[(end - 1) / 2];
        if (p->kind == SL_PART_CARD)
            worsen(more, p->latency[1], p->pace[1]);
    }
}

double sl_model_slowdown(const sl_model *m, int process) {
    double slow = 1;
    for (int end = m->first[process]; end; end = m->next[end - 1]) {
        const sl_slow_part *p = &m->part[(end - 1) / 2];
        slow *= p->kind == SL_PART_DEVICE ? p->slowdown : 1;
    }
    return slow;
}

double sl_model_slowness(const sl_model *m, int rank, int replica) {
    double slow = 0;
    for (int k = 0; k < m->job.tensor; k++)
        slow = fmax(slow, sl_model_slowdown(m, m->process[sl_job_position(&m->job, rank, replica, k)]));
    return slow;
}

/* A sum waits for its slowest pair: in a ring in each step, otherwise there and back. */
double sl_model_sum_growth(const sl_model *m, const sl_slow_part *part, int stage) {
    int n = m->job.replicas, at = m->position[part->a], both = part->kind == SL_PART_LINK;
    if (!m->job.sum || n == 1 || part->kind == SL_PART_DEVICE ||
        sl_job_rank(&m->job, at) != sl_problem_rank(m->healthy[0], stage))
        return 0;
    if (both) {
        int to = m->position[part->b];
        int apart = abs(sl_job_replica(&m->job, at) - sl_job_replica(&m->job, to));
        if (apart == 0 || at % m->job.tensor != to % m->job.tensor ||
            sl_job_rank(&m->job, at) != sl_job_rank(&m->job, to) ||
            (m->job.ring && apart != 1 && apart != n - 1))
            return 0;
    }
    double most = 0, bytes = m->job.sum[stage] / n;
    for (int way = 0; way < 2; way++) {
        double more[2] = {part->latency[way], part->pace[way]};
        if (both)
            sl_model_pair(m, way ? part->b : part->a, way ? part->a : part->b, more);
        most = fmax(most, more[0] + more[1] * bytes);
    }
    return (m->job.ring ? 2.0 * (n - 1) : 2.0) * most;
}

void sl_model_sums(sl_model *m) {
    m->path = (sl_fingerprint){{(uint64_t)m->delegated, 0}};
    for (int stage = 0; stage < m->stages; stage++) {
        m->growth[stage] = 0;
        for (int i = 0; i < m->parts && m->job.sum; i++)
            m->growth[stage] = fmax(m->growth[stage], sl_model_sum_growth(m, &m->part[i], stage));
        sl_fingerprint_add_real(&m->path, m->growth[stage]);
    }
}

/* ---- a replica ---- */

static sl_status add(sl_model *m, int from, int to, double latency, double pace) {
    if (latency <= 0 && pace <= 0)
        return SL_OK;
    SL_TRY(sl_grow(&m->excess, &m->excess_room, m->excesses + 1, sizeof *m->excess));
    m->excess[m->excesses++] = (sl_excess){from, to, {latency, pace}};
    return SL_OK;
}

/* Links and cards of the process at a position. A link is found at its end a. */
static sl_status add_links(sl_model *m, int position) {
    int rank = sl_job_rank(&m->job, position), ranks = m->job.ranks;
    for (int end = m->first[m->process[position]]; end; end = m->next[end - 1]) {
        const sl_slow_part *p = &m->part[(end - 1) / 2];
        if (p->kind == SL_PART_CARD && ranks > 1) {
            SL_TRY(add(m, rank, -1, p->latency[0], p->pace[0]));
            SL_TRY(add(m, -1, rank, p->latency[1], p->pace[1]));
        } else if (p->kind == SL_PART_LINK && (end - 1) % 2 == 0) {
            int to = m->position[p->b], other = sl_job_rank(&m->job, to);
            if (sl_job_replica(&m->job, to) != sl_job_replica(&m->job, position) ||
                !m->talks[rank * ranks + other] || to % m->job.tensor != position % m->job.tensor)
                continue;
            SL_TRY(add(m, rank, other, p->latency[0], p->pace[0]));
            SL_TRY(add(m, other, rank, p->latency[1], p->pace[1]));
        }
    }
    return SL_OK;
}

static int by_ends(const void *a, const void *b) {
    const sl_excess *x = a, *y = b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from) : (x->to > y->to) - (x->to < y->to);
}

/* Sorts them, with each link once. */
static void merge(sl_model *m) {
    size_t kept = 0;
    if (m->excesses)
        qsort(m->excess, m->excesses, sizeof *m->excess, by_ends);
    for (size_t i = 0; i < m->excesses; i++) {
        if (kept && by_ends(&m->excess[kept - 1], &m->excess[i]) == 0)
            worsen(m->excess[kept - 1].more, m->excess[i].more[0], m->excess[i].more[1]);
        else
            m->excess[kept++] = m->excess[i];
    }
    m->excesses = kept;
}

sl_status sl_model_look(sl_model *m, int replica, sl_fingerprint *like) {
    m->excesses = 0;
    for (int rank = 0; rank < m->job.ranks; rank++) {
        double slow = sl_model_slowness(m, rank, replica);
        if (slow != 1)
            SL_TRY(add(m, rank, rank, slow, 0));
        for (int k = 0; k < m->job.tensor; k++)
            SL_TRY(add_links(m, sl_job_position(&m->job, rank, replica, k)));
    }
    merge(m);
    *like = m->based[m->base[replica]];
    for (size_t i = 0; i < m->excesses; i++) {
        const sl_excess *e = &m->excess[i];
        sl_fingerprint_add(like, (uint64_t)(uint32_t)e->from << 32 | (uint32_t)e->to);
        sl_fingerprint_add_real(like, e->more[0]);
        sl_fingerprint_add_real(like, e->more[1]);
    }
    return SL_OK;
}

/* ---- its problem ---- */

/* At most the timing model's maximum for an op or message. */
static sl_time capped(double time, double max_ms) {
    return (sl_time)llround(fmin(time, max_ms * 1e6));
}

static void slow_ops(const sl_model *m, sl_problem *p) {
    for (size_t i = 0; i < m->excesses; i++) {
        const sl_excess *e = &m->excess[i];
        for (int stage = 0; stage < p->stages && e->from == e->to; stage++) {
            if (sl_problem_rank(p, stage) != e->from)
                continue;
            for (int kind = 0; kind < SL_OP_KINDS; kind++)
                p->time[kind][stage] =
                    capped((double)p->time[kind][stage] * e->more[0], (kind == SL_B ? 2 : 1) * SL_MAX_OP_MS);
            p->saved[stage] = capped((double)p->saved[stage] * e->more[0], 2 * SL_MAX_OP_MS);
        }
    }
}

static void slow_link(const sl_model *m, int from, int to, sl_link *link) {
    double more[2] = {0, 0};
    for (size_t i = 0; i < m->excesses; i++) {
        const sl_excess *e = &m->excess[i];
        if (e->from != e->to && (e->from == from || e->from < 0) && (e->to == to || e->to < 0))
            worsen(more, e->more[0], e->more[1]);
    }
    more[0] += m->delegated ? m->job.delegated : 0;
    link->latency = capped((double)link->latency + more[0], SL_MAX_OP_MS);
    link->transfer = capped((double)link->transfer + more[1] * m->job.message, SL_MAX_OP_MS);
}

/* For the replica last examined. */
static sl_status build(const sl_model *m, int replica, int microbatches, sl_problem *p) {
    SL_TRY(sl_problem_copy(m->healthy[replica], p));
    p->microbatches = microbatches;
    if (m->delegated)
        p->communication = SL_DECOUPLED;
    slow_ops(m, p);
    for (int from = 0; from < p->ranks; from++)
        for (int to = 0; to < p->ranks; to++)
            if (m->talks[from * p->ranks + to])
                slow_link(m, from, to, &p->link[from * p->ranks + to]);
    for (int stage = 0; stage < p->stages; stage++)
        p->reduce[stage] =
            capped((double)p->reduce[stage] + m->growth[stage], SL_MAX_TOTAL_MS / SL_MAX_STAGES);
    return SL_OK;
}

sl_status sl_model_problem(sl_model *m, const sl_job_layout *layout, int replica, sl_problem *problem) {
    sl_fingerprint like;
    sl_model_take(m, layout);
    SL_TRY(sl_model_look(m, replica, &like));
    return build(m, replica, layout->split[replica], problem);
}

/* Adds many words, each with only two multiplications; the end of sl_model_base mixes the result. */
static void add_words(sl_fingerprint *f, const void *words, int count) {
    for (int i = 0; i < count; i++) {
        uint64_t word;
        memcpy(&word, (const unsigned char *)words + 8 * i, sizeof word);
        f->word[0] = (f->word[0] ^ word) * SL_RANDOM_STEP;
        f->word[0] ^= f->word[0] >> 32;
        f->word[1] = (f->word[1] + word) * 0xd1b54a32d192ed03u;
        f->word[1] ^= f->word[1] >> 29;
    }
}

static void add_times(sl_fingerprint *f, const sl_time *time, int count) {
    add_words(f, time, count);
}

static void add_reals(sl_fingerprint *f, const double *value, int count) {
    sl_fingerprint_add(f, value != NULL);
    add_words(f, value, value ? count : 0);
}

sl_fingerprint sl_model_base(const sl_problem *p) {
    sl_fingerprint f = {{0, 0}};
    const sl_time shape[] = {p->ranks, p->stages, (sl_time)p->placement, (sl_time)p->communication,
                             p->queue, p->parts};
    add_times(&f, shape, 6);
    sl_fingerprint_add_real(&f, p->percentile);
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        add_times(&f, p->time[kind], p->stages);
        add_reals(&f, p->delta[kind], p->stages);
    }
    const sl_time *times[] = {p->saved, p->gather, p->reduce, p->offload};
    for (int i = 0; i < 4; i++)
        add_times(&f, times[i], p->stages);
    add_reals(&f, p->start, p->stages);
    add_reals(&f, p->early, p->stages);
    add_reals(&f, p->limit, p->ranks);
    add_reals(&f, p->fixed, p->ranks);
    for (int stage = 0; stage < p->stages; stage++)
        sl_fingerprint_add(&f, p->recompute[stage]);
    for (int rank = 0; p->host_limit && rank < p->ranks; rank++)
        sl_fingerprint_add(&f, (uint64_t)p->host_limit[rank] + 1);
    for (int i = 0; i < p->ranks * p->ranks; i++) {
        const sl_link *l = &p->link[i];
        const sl_time link[] = {l->latency, l->transfer, l->jitter, l->lanes, p->wire ? p->wire[i] : -1};
        add_times(&f, link, 5);
    }
    sl_fingerprint_add(&f, 0);
    return f;
}

/* ---- its time ---- */

static sl_status plan(sl_model *m, int replica, int microbatches, double *time) {
    sl_problem problem = {0};
    sl_time makespan = 0;
    sl_fingerprint like;
    SL_TRY(sl_model_look(m, replica, &like));
    sl_status status = build(m, replica, microbatches, &problem);
    if (status == SL_OK && sl_problem_total_ms(&problem) > SL_MAX_TOTAL_MS)
        status = sl_error(SL_ENONE, "an iteration would take longer than anything that is timed");
    if (status == SL_OK)
        status = sl_plan_time(&problem, m->rule, &makespan);
    *time = status == SL_OK ? (double)makespan : INFINITY;
    sl_problem_free(&problem);
    return status == SL_ENONE || status == SL_EINVAL ? SL_OK : status; /* not possible with this family */
}

sl_status sl_model_ask(sl_model *m, const sl_alike *group, int microbatches, double *time) {
    const sl_problem *p = m->healthy[group->replica];
    long long ops = 3LL * p->stages * p->parts * microbatches;
    sl_fingerprint asked = group->like;
    sl_fingerprint_add(&asked, m->path.word[0]);
    sl_fingerprint_add(&asked, m->path.word[1]);
    sl_fingerprint_add(&asked, (uint64_t)microbatches << 1 | (strcmp(m->rule, m->job.schedule) != 0));
    *time = INFINITY;
    m->allowed--;
    if (microbatches < 1 || microbatches > SL_MAX_MICROBATCHES || ops > SL_MAX_OPS)
        return SL_OK;
    sl_answer *answer;
    SL_TRY(sl_model_answer(m->answers, &asked, &answer));
    if (answer->asked.word[0] | answer->asked.word[1]) {
        *time = answer->time;
        return SL_OK;
    }
    if (m->allowed <= 0)
        return SL_OK;
    m->allowed -= 10 * ops;
    SL_TRY(plan(m, group->replica, microbatches, time));
    sl_model_answered(m->answers, &asked, *time, answer);
    return SL_OK;
}
