/* A training job of several pipelines on the virtual clock: real engines and transports, a thread a rank, ops
 * that sleep for their time with jitter, links with emulated latency and bandwidth, and faults. Each replica
 * has a clock of its own; their reductions are put behind what they ran. Its records go to the orchestrator
 * as rank 0 of a run passes them on; nothing is adapted.
 *
 * Random cases for the campaign of bench/localisation, and for a test that holds a part of it. */
#ifndef SL_TESTS_RUN_TRAIN_VIRTUAL_JOB_H
#define SL_TESTS_RUN_TRAIN_VIRTUAL_JOB_H

#include "adapt/orchestrator/told.h"
#include "base/clock.h"
#include "base/random.h"
#include "plan/search/plan.h"
#include "run/engine/engine.h"
#include "run/journal/measure.h"
#include "run/transport/hub.h"
#include "virtual_clock.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    JOB_RANKS = 4,
    JOB_REPLICAS = 4,
    JOB_ITERATIONS = 80,
    JOB_RECORDS = 1024,
    JOB_BYTES = 64,
    JOB_FAULTS = 2
};

typedef struct job_fault {
    int first, end;
    int replica;        /* where */
    int rank;           /* -1: a link */
    double slowdown;    /* of its ops */
    int from, to, both; /* -1: none */
    double latency_ms;  /* added */
    double transfer_ms; /* of a message, 0: as ever */
} job_fault;

typedef struct job {
    uint64_t seed;
    int ranks, replicas, iterations;
    int microbatches[JOB_REPLICAS];
    const char *schedule;
    double op_ms[JOB_RANKS]; /* F, I and W of a stage each */
    double latency_ms, reduce_ms;
    double jitter; /* of every op and message, relative */
    double spike;  /* chance of an iteration in which a rank is held up for 2 to 5 times its op */
    int faults;
    job_fault fault[JOB_FAULTS];
} job;

/* ---- numbers ---- */

static inline double job_random(uint64_t *state) {
    return sl_random_unit(sl_random_mix(*state += SL_RANDOM_STEP));
}

static inline double job_between(uint64_t *state, double low, double high) {
    return low + (high - low) * job_random(state);
}

static inline int job_below(uint64_t *state, int below) {
    return (int)(job_random(state) * below);
}

/* ---- a rank ---- */

typedef struct job_replica job_replica;

typedef struct job_member {
    job_replica *replica;
    int rank, iteration;
    uint64_t random;
    pthread_t thread;
    sl_record *record; /* [iterations * JOB_RECORDS] */
    int *records;      /* [iterations] */
    sl_time *end;      /* [iterations] */
    int held_up;       /* the op of this iteration that is; -1 */
    int op;
    sl_status status;
    char error[256];
} job_member;

struct job_replica {
    const job *job;
    int replica;
    sl_problem problem;
    sl_plan plan;
    sl_clock *clock;
    sl_transport_hub *hub;
    job_member member[JOB_RANKS];
};

static inline int job_active(const job_fault *f, const job_member *m) {
    return f->replica == m->replica->replica && m->iteration >= f->first && m->iteration < f->end;
}

static inline double job_jitter(job_member *m) {
    uint64_t *r = &m->random;
    return 1 + m->replica->job->jitter * (job_random(r) + job_random(r) + job_random(r) - 1.5);
}

/* An op: asleep for as long as it takes. */
static inline sl_status job_work(void *object) {
    job_member *m = object;
    const job *j = m->replica->job;
    double ms = j->op_ms[m->rank] * job_jitter(m);
    for (int i = 0; i < j->faults; i++)
        if (job_active(&j->fault[i], m) && j->fault[i].rank == m->rank)
            ms *= j->fault[i].slowdown;
    if (m->op++ == m->held_up)
        ms += j->op_ms[m->rank] * job_between(&m->random, 2, 5);
    sl_clock *clock = m->replica->clock;
    sl_clock_sleep_until(clock, sl_clock_now(clock) + (sl_time)(ms * (double)SL_MS));
    return SL_OK;
}

static inline sl_status job_forward(void *object, const sl_op *op, int parts, const void *in, void *out) {
    (void)op, (void)parts, (void)in;
    if (out)
        memset(out, 1, JOB_BYTES);
    return job_work(object);
}

static inline sl_status job_input_grad(void *object, const sl_op *op, int parts, const void *in, void *out) {
    return job_forward(object, op, parts, in, out);
}

static inline sl_status job_weight_grad(void *object, const sl_op *op, int parts) {
    (void)op, (void)parts;
    return job_work(object);
}

static inline void job_emulate(job_member *m, sl_transport *transport) {
    const job *j = m->replica->job;
    for (int peer = 0; peer < j->ranks; peer++) {
        double latency = j->latency_ms * job_jitter(m);
        sl_link_emulation e = {0};
        if (peer == m->rank)
            continue;
        for (int i = 0; i < j->faults; i++) {
            const job_fault *f = &j->fault[i];
            int mine =
                (f->from == m->rank && f->to == peer) || (f->both && f->from == peer && f->to == m->rank);
            if (!job_active(f, m) || f->from < 0 || !mine)
                continue;
            latency += f->latency_ms * job_jitter(m);
            if (f->transfer_ms > 0)
                e.bytes_per_second = JOB_BYTES * 1e3 / f->transfer_ms;
        }
        e.latency = (sl_time)(latency * (double)SL_MS);
        sl_transport_emulate(transport, peer, e);
    }
}

static inline sl_time job_begin(int iteration) {
    return (1 + iteration) * 1000 * SL_SECOND;
}

static inline sl_status job_iterate(job_member *m, sl_engine *engine, sl_transport *transport,
                                    sl_record_ring *ring) {
    const job *j = m->replica->job;
    uint64_t position = 0, lost = 0;
    SL_TRY(sl_engine_swap(engine, &m->replica->plan.program, NULL));
    for (m->iteration = 0; m->iteration < j->iterations; m->iteration++) {
        sl_engine_result result;
        int i = m->iteration;
        m->op = 0;
        m->held_up = job_random(&m->random) < j->spike ? job_below(&m->random, 12) : -1;
        job_emulate(m, transport);
        SL_TRY(sl_engine_run(engine, (uint32_t)i, job_begin(i), &result));
        m->end[i] = result.end;
        m->records[i] = (int)sl_record_read(ring, ring->capacity, &position,
                                            m->record + (size_t)i * JOB_RECORDS, JOB_RECORDS, &lost);
    }
    return lost ? sl_error(SL_EINVAL, "records were lost") : SL_OK;
}

static inline sl_status job_run_member(job_member *m, sl_transport **transport, sl_engine **engine,
                                       sl_record_ring *ring) {
    const job_replica *r = m->replica;
    sl_stage stage[JOB_RANKS] = {{0}};
    int slots = 2 * r->problem.microbatches * 2;
    sl_transport_config tc = {.rank = m->rank,
                              .ranks = r->job->ranks,
                              .clock = r->clock,
                              .hub = r->hub,
                              .message_bytes = JOB_BYTES,
                              .slots = slots};
    SL_TRY(sl_transport_open(&tc, -1, SL_SECOND, transport));
    stage[m->rank] = (sl_stage){.object = m,
                                .forward = job_forward,
                                .input_grad = job_input_grad,
                                .weight_grad = job_weight_grad,
                                .input_bytes = m->rank > 0 ? JOB_BYTES : 0,
                                .output_bytes = m->rank + 1 < r->job->ranks ? JOB_BYTES : 0};
    sl_engine_config ec = {.rank = m->rank,
                           .clock = r->clock,
                           .transport = *transport,
                           .ring = ring,
                           .stage = stage,
                           .stages = r->job->ranks,
                           .regime = SL_DECOUPLED,
                           .queue = 1,
                           .patience = 900 * SL_SECOND};
    SL_TRY(sl_engine_open(&ec, engine));
    return job_iterate(m, *engine, *transport, ring);
}

static inline void *job_member_main(void *object) {
    job_member *m = object;
    sl_record_ring *ring = calloc(1, sl_record_ring_bytes(JOB_RECORDS));
    sl_transport *transport = NULL;
    sl_engine *engine = NULL;
    sl_record_ring_init(ring, JOB_RECORDS);
    m->status = job_run_member(m, &transport, &engine, ring);
    snprintf(m->error, sizeof m->error, "%s", m->status == SL_OK ? "" : sl_error_text());
    sl_engine_close(engine);
    sl_transport_close(transport);
    free(ring);
    sl_clock_leave(m->replica->clock);
    return NULL;
}

/* ---- a replica ---- */

static inline sl_status job_open_replica(job_replica *r) {
    const job *j = r->job;
    SL_TRY(sl_problem_make(j->ranks, j->ranks, j->microbatches[r->replica], &r->problem));
    for (int s = 0; s < j->ranks; s++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            r->problem.time[kind][s] = (sl_time)(j->op_ms[s] * (double)SL_MS) * (kind == SL_B ? 2 : 1);
        if (j->replicas > 1)
            r->problem.reduce[s] = (sl_time)(j->reduce_ms * (double)SL_MS);
        for (int o = 0; o < j->ranks; o++)
            r->problem.link[s * j->ranks + o].latency = (sl_time)(j->latency_ms * (double)SL_MS);
    }
    SL_TRY(sl_plan_make(&r->problem, j->schedule, &r->plan));
    SL_TRY(sl_clock_open_virtual(j->ranks, &r->clock));
    return sl_transport_hub_open(j->ranks, JOB_BYTES, 4 * r->problem.microbatches, &r->hub);
}

static inline sl_status job_run_replica(job_replica *r) {
    const job *j = r->job;
    SL_TRY(job_open_replica(r));
    for (int rank = 0; rank < j->ranks; rank++) {
        job_member *m = &r->member[rank];
        *m = (job_member){.replica = r,
                          .rank = rank,
                          .random =
                              sl_random_mix(j->seed + 977 * (uint64_t)(r->replica * JOB_RANKS + rank + 1)),
                          .record = calloc((size_t)(j->iterations * JOB_RECORDS), sizeof(sl_record)),
                          .records = calloc((size_t)j->iterations, sizeof(int)),
                          .end = calloc((size_t)j->iterations, sizeof(sl_time))};
        pthread_create(&m->thread, NULL, job_member_main, m);
    }
    for (int rank = 0; rank < j->ranks; rank++)
        pthread_join(r->member[rank].thread, NULL);
    for (int rank = 0; rank < j->ranks; rank++)
        if (r->member[rank].status != SL_OK)
            return sl_error(r->member[rank].status, "rank %d: %s", rank, r->member[rank].error);
    return SL_OK;
}

static inline void job_close_replica(job_replica *r) {
    for (int rank = 0; rank < JOB_RANKS; rank++) {
        free(r->member[rank].record);
        free(r->member[rank].records);
        free(r->member[rank].end);
    }
    sl_transport_hub_close(r->hub);
    sl_clock_close(r->clock);
    sl_plan_free(&r->plan);
    sl_problem_free(&r->problem);
}

/* ---- the job, and what the orchestrator makes of it ---- */

enum { JOB_NEWS = 32 };

typedef struct job_outcome {
    double time_ms[JOB_ITERATIONS];
    told happened[JOB_NEWS];
    int count;
} job_outcome;

/* Reductions of each stage begin when its ops have ended, and end together on all replicas. */
static inline sl_time job_sum(const job *j, const job_replica *replica, int i, uint64_t *random,
                              sl_time *summed) {
    sl_time last = 0;
    for (int stage = 0; stage < j->ranks; stage++) {
        summed[stage] = 0;
        for (int r = 0; r < j->replicas; r++) {
            sl_time end = replica[r].member[stage].end[i];
            summed[stage] = end > summed[stage] ? end : summed[stage];
        }
        if (j->replicas > 1)
            summed[stage] += (sl_time)(j->reduce_ms * job_between(random, 0.9, 1.2) * (double)SL_MS);
        last = summed[stage] > last ? summed[stage] : last;
    }
    return last;
}

/* As rank 0 does. */
static inline sl_status job_measure(const job_replica *r, int i, const sl_time *summed, sl_timeline *timeline,
                                    sl_measured **measured) {
    const job *j = r->job;
    const sl_offset clock[JOB_RANKS] = {{0}};
    int n = 0;
    sl_record *all = calloc((size_t)(j->ranks * (JOB_RECORDS + 1)), sizeof *all);
    for (int stage = 0; stage < j->ranks; stage++) {
        const job_member *m = &r->member[stage];
        memcpy(all + n, m->record + (size_t)i * JOB_RECORDS, (size_t)m->records[i] * sizeof *all);
        n += m->records[i];
        if (j->replicas > 1)
            all[n++] = (sl_record){.kind = SL_RECORD_REDUCE,
                                   .op = SL_REDUCE,
                                   .iteration = i,
                                   .rank = stage,
                                   .peer = -1,
                                   .stage = stage,
                                   .microbatch = -1,
                                   .start = m->end[i],
                                   .end = summed[stage]};
    }
    sl_status status = sl_measure_timeline(&r->problem, all, n, i, job_begin(i), clock, timeline);
    if (status == SL_OK)
        status = sl_measured_make(&r->problem, timeline, NULL, NULL, measured);
    free(all);
    return status;
}

static inline void job_hear(const job *j, sl_orchestrator *o, job_outcome *out) {
    told now = {0};
    sl_event event;
    while (sl_orchestrator_event(o, &event))
        told_add(&now, &event, j->replicas);
    if (now.count && out->count < JOB_NEWS)
        out->happened[out->count++] = now;
}

static inline sl_status job_tell(const job *j, job_replica *replica, int i, uint64_t *random,
                                 sl_orchestrator *o, job_outcome *out) {
    sl_time summed[JOB_RANKS], last = job_sum(j, replica, i, random, summed);
    sl_timeline timeline[JOB_REPLICAS] = {{0}};
    sl_measured *measured[JOB_REPLICAS] = {NULL};
    sl_status status = SL_OK;
    for (int r = 0; r < j->replicas && status == SL_OK; r++)
        status = job_measure(&replica[r], i, summed, &timeline[r], &measured[r]);
    if (status == SL_OK && j->replicas > 1)
        sl_measure_reductions(timeline, j->replicas, measured);
    out->time_ms[i] = sl_to_ms(last - job_begin(i)) + job_between(random, 0.4, 0.6);
    if (status == SL_OK)
        status = sl_orchestrator_observe(
            o, &(sl_orchestrator_iteration){.iteration = i,
                                            .now = last,
                                            .time = (sl_time)(out->time_ms[i] * (double)SL_MS),
                                            .replica = measured});
    for (int r = 0; r < j->replicas; r++) {
        sl_measured_drop(measured[r]);
        sl_timeline_free(&timeline[r]);
    }
    job_hear(j, o, out);
    return status;
}

static inline sl_status job_open(const job *j, const job_replica *replica, sl_orchestrator **o) {
    const sl_problem *problem[JOB_REPLICAS];
    const sl_plan *first[JOB_REPLICAS];
    sl_orchestrator_config config = sl_orchestrator_defaults();
    for (int r = 0; r < j->replicas; r++) {
        problem[r] = &replica[r].problem;
        first[r] = &replica[r].plan;
    }
    config.job.replicas = j->replicas;
    config.job.ranks = j->ranks;
    config.job.message = JOB_BYTES;
    config.problem = problem;
    config.first = first;
    return sl_orchestrator_open(&config, o);
}

static inline sl_status job_run(const job *j, job_outcome *out) {
    job_replica *replica = calloc((size_t)j->replicas, sizeof *replica);
    sl_orchestrator *o = NULL;
    uint64_t random = sl_random_mix(j->seed ^ 0x5eed);
    sl_status status = SL_OK;
    *out = (job_outcome){0};
    for (int r = 0; r < j->replicas && status == SL_OK; r++) {
        replica[r].job = j;
        replica[r].replica = r;
        status = job_run_replica(&replica[r]);
    }
    if (status == SL_OK)
        status = job_open(j, replica, &o);
    for (int i = 0; i < j->iterations && status == SL_OK; i++)
        status = job_tell(j, replica, i, &random, o, out);
    sl_orchestrator_close(o);
    for (int r = 0; r < j->replicas; r++)
        job_close_replica(&replica[r]);
    free(replica);
    return status;
}

/* ---- random cases ---- */

typedef enum job_kind { JOB_NONE, JOB_DEVICE, JOB_LATENCY, JOB_BANDWIDTH, JOB_TWO, JOB_SMALL } job_kind;

static const char *const job_kinds[] = {"none",           "device",      "link latency",
                                        "link bandwidth", "two at once", "below 10 %"};

static inline void job_add_fault(job *j, uint64_t *s, job_kind kind, int first, int end) {
    job_fault f = {.first = first,
                   .end = end,
                   .replica = job_below(s, j->replicas),
                   .rank = -1,
                   .slowdown = 1,
                   .from = -1,
                   .to = -1};
    double op = 0;
    for (int r = 0; r < j->ranks; r++)
        op += j->op_ms[r] / j->ranks;
    if (kind == JOB_DEVICE || kind == JOB_SMALL) {
        f.rank = job_below(s, j->ranks);
        f.slowdown = kind == JOB_SMALL ? job_between(s, 1.02, 1.08) : job_between(s, 1.2, 3);
    } else {
        f.from = job_below(s, j->ranks - 1);
        f.to = f.from + 1;
        f.both = job_random(s) < 0.6;
        if (!f.both && job_random(s) < 0.5) {
            f.to = f.from;
            f.from = f.to + 1;
        }
        if (kind == JOB_BANDWIDTH)
            f.transfer_ms = op * job_between(s, 1, 6);
        else
            f.latency_ms = op * job_between(s, 0.5, 8);
    }
    j->fault[j->faults++] = f;
}

static inline int job_same_place(const job_fault *a, const job_fault *b) {
    return a->replica == b->replica && a->rank == b->rank &&
           (a->rank >= 0 || (a->from < a->to ? a->from : a->to) == (b->from < b->to ? b->from : b->to));
}

/* Case `number` of a campaign: 4 x 2 or 2 x 4, and everything else at random. */
static inline job_kind job_draw(uint64_t seed, int number, job *j) {
    static const char *const schedules[] = {"1f1b", "gpipe", "adaptra", "zb-h1"};
    uint64_t s = sl_random_mix(seed + 1000003 * (uint64_t)number);
    double dice = job_random(&s), op = job_between(&s, 4, 20);
    job_kind kind = dice < 0.08   ? JOB_NONE
                    : dice < 0.45 ? JOB_DEVICE
                    : dice < 0.65 ? JOB_LATENCY
                    : dice < 0.82 ? JOB_BANDWIDTH
                    : dice < 0.93 ? JOB_TWO
                                  : JOB_SMALL;
    int deep = job_below(&s, 2), microbatches = 4 + job_below(&s, 5), uneven = job_below(&s, 2);
    *j = (job){.seed = sl_random_mix(s), .ranks = deep ? 4 : 2, .replicas = deep ? 2 : 4, .iterations = 70};
    for (int r = 0; r < j->ranks; r++)
        j->op_ms[r] = op * (uneven ? job_between(&s, 0.6, 1.6) : 1);
    for (int r = 0; r < j->replicas; r++) /* batch.split */
        j->microbatches[r] = microbatches + (job_below(&s, 2) ? job_below(&s, 4) : 0);
    j->schedule = schedules[job_below(&s, 4)];
    j->latency_ms = job_between(&s, 0.1, 1);
    j->reduce_ms = job_between(&s, 1, 6);
    j->jitter = job_between(&s, 0, 0.06);
    j->spike = job_below(&s, 2) ? 0.01 : 0;
    int first = 14 + job_below(&s, 20), end = first + 14 + job_below(&s, 20);
    if (kind == JOB_TWO) {
        job_add_fault(j, &s, job_below(&s, 2) ? JOB_DEVICE : JOB_LATENCY, first, end);
        do {
            j->faults = 1;
            job_add_fault(j, &s, job_below(&s, 2) ? JOB_DEVICE : JOB_BANDWIDTH, first, end);
        } while (job_same_place(&j->fault[0], &j->fault[1]));
    } else if (kind != JOB_NONE) {
        job_add_fault(j, &s, kind, first, end);
    }
    return kind;
}

/* How much longer iterations took while the faults were there. */
static inline double job_effect(const job *j, const job_outcome *out) {
    double before = 0, during = 0;
    if (j->faults == 0)
        return 1;
    for (int i = 2; i < j->fault[0].first; i++)
        before += out->time_ms[i] / (j->fault[0].first - 2);
    for (int i = j->fault[0].first; i < j->fault[0].end; i++)
        during += out->time_ms[i] / (j->fault[0].end - j->fault[0].first);
    return during / before;
}

/* Draws and runs case `number`; a fault that costs nothing (a rank that is never waited for) is drawn again
 * until iterations take 12 % longer. */
static inline sl_status job_case(uint64_t seed, int number, job *j, job_kind *kind, job_outcome *out) {
    *kind = job_draw(seed, number, j);
    SL_TRY(job_run(j, out));
    for (int again = 1; *kind != JOB_NONE && *kind != JOB_SMALL && job_effect(j, out) < 1.12; again++) {
        if (job_draw(seed, number + 10000 * again, j) != *kind)
            continue;
        SL_TRY(job_run(j, out));
    }
    return SL_OK;
}

/* ---- judging ---- */

typedef enum job_verdict {
    JOB_RIGHT,       /* the component, of two both; nothing, where nothing costs a tenth */
    JOB_CANNOT_TELL, /* said so, in so many words */
    JOB_PARTLY,      /* one of two */
    JOB_MISSED,      /* a tenth slower, and nothing was said */
    JOB_WRONG        /* something that is not slow was named */
} job_verdict;

static const char *const job_verdicts[] = {"right", "cannot tell", "one of two", "missed", "wrong"};

static inline int job_is(const job_fault *f, const told_name *s) {
    if (f->replica != s->replica)
        return 0;
    if (f->rank >= 0)
        return s->component == SL_COMPONENT_DEVICE && s->rank == f->rank;
    return s->component == SL_COMPONENT_LINK && s->both == f->both &&
           ((s->from == f->from && s->to == f->to) || (f->both && s->from == f->to && s->to == f->from));
}

/* Suspects and verdicts count alike: none of them may be wrong. */
static inline job_verdict job_judge(const job *j, job_kind kind, const job_outcome *out) {
    int named[JOB_FAULTS] = {0}, said = 0;
    for (int n = 0; n < out->count; n++)
        for (int i = 0; i < out->happened[n].count; i++) {
            const told_name *s = &out->happened[n].name[i];
            int known = 0;
            said = 1;
            for (int f = 0; f < j->faults; f++)
                if (job_is(&j->fault[f], s))
                    known = named[f] = 1;
            if (!known && s->component != SL_COMPONENT_UNKNOWN)
                return JOB_WRONG;
        }
    int all = j->faults > 0, any = 0;
    for (int f = 0; f < j->faults; f++) {
        all &= named[f];
        any |= named[f];
    }
    if (kind == JOB_NONE || kind == JOB_SMALL)
        return said ? JOB_CANNOT_TELL : JOB_RIGHT;
    if (all || (!said && job_effect(j, out) < 1.1))
        return JOB_RIGHT;
    return any ? JOB_PARTLY : said ? JOB_CANNOT_TELL : JOB_MISSED;
}

#endif
