/* Ranks as threads on a virtual clock, each with an engine and empty paced ops, for any placement, with
 * stages that check what they get: every message says which op of which iteration made it, with how many
 * parts, and every activation is where an op needs it, never more of them than device and host hold. Two
 * programs run one after the other; the second is swapped in before iteration 1. */
#ifndef SL_TESTS_RUN_ENGINE_CLUSTER_H
#define SL_TESTS_RUN_ENGINE_CLUSTER_H

#include "check.h"

#include "plan/lower/post.h"
#include "plan/timing/replay.h"
#include "run/engine/engine.h"
#include "run/transport/hub.h"
#include "virtual_clock.h"
#include <pthread.h>

enum {
    MAX_RANKS = 6,
    MAX_STAGES = 24,
    MAX_PARTS = 4,
    MAX_MICROBATCHES = 32,
    MAX_RECORDS = 4096,
    ITERATIONS = 2
};

typedef struct cluster cluster;
typedef struct member member;

typedef struct holder {
    member *member;
    int stage;
    int last_weight[MAX_PARTS];
    int prepared;                 /* times, in all iterations */
    char place[MAX_MICROBATCHES]; /* of each activation: not there, on the device, on the host */
} holder;

struct member {
    cluster *cluster;
    int rank, iteration;
    pthread_t thread;
    sl_record *record;
    size_t records;
    _Atomic(sl_transport *) transport;
    holder holder[MAX_STAGES];
    int held, hosted, moved; /* activations of this rank on the device and the host, and moves; under mutex */
    pthread_mutex_t mutex;
    sl_engine_result result[ITERATIONS];
    sl_status status;
    char error[256];
};

struct cluster {
    const sl_problem *problem;
    const sl_program *program[ITERATIONS];
    int32_t *post[ITERATIONS]; /* NULL: all before the first op */
    int dies, aborts;          /* rank + 1 whose second F fails, and whether that ends all waits of others */
    size_t extra;              /* bytes by which each stage's message is larger than the one before's */
    sl_clock *clock;
    sl_transport_hub *hub;
    member member[MAX_RANKS];
};

/* What a message carries. */
typedef struct payload {
    int32_t iteration, backward, stage, microbatch;
    int32_t part[MAX_PARTS]; /* made in this order: 1, 2, .. */
} payload;

static inline size_t bytes_behind(const cluster *c, int stage) {
    return sl_problem_next(c->problem, stage) < 0 ? 0 : sizeof(payload) + c->extra * (size_t)stage;
}

static inline sl_status check_input(const holder *h, const sl_op *op, int parts, int backward,
                                    const payload *in) {
    const cluster *c = h->member->cluster;
    int from = backward ? sl_problem_next(c->problem, h->stage) : sl_problem_previous(c->problem, h->stage);
    if (op->stage != h->stage || (from < 0) != (in == NULL))
        return sl_error(SL_EINVAL, "stage %d ran an op of stage %d, or its input is wrong", h->stage,
                        op->stage);
    if (!in)
        return SL_OK;
    if (in->iteration != h->member->iteration || in->backward != backward || in->stage != from ||
        in->microbatch != op->microbatch)
        return sl_error(SL_EINVAL,
                        "stage %d, microbatch %d, backward %d got what stage %d made of microbatch %d, "
                        "backward %d, in iteration %d",
                        h->stage, op->microbatch, backward, in->stage, in->microbatch, in->backward,
                        in->iteration);
    for (int part = 0; part < parts; part++)
        if (in->part[part] != part + 1)
            return sl_error(SL_EINVAL, "stage %d, microbatch %d: part %d is missing", h->stage,
                            op->microbatch, part);
    return SL_OK;
}

static inline sl_status make_output(const holder *h, const sl_op *op, int backward, payload *out) {
    const cluster *c = h->member->cluster;
    int to = backward ? sl_problem_previous(c->problem, h->stage) : sl_problem_next(c->problem, h->stage);
    if ((to < 0) != (out == NULL))
        return sl_error(SL_EINVAL, "stage %d has no output, or one too many", h->stage);
    if (!out)
        return SL_OK;
    if (op->part == 0)
        *out = (payload){.iteration = h->member->iteration,
                         .backward = backward,
                         .stage = h->stage,
                         .microbatch = op->microbatch};
    else if (out->stage != h->stage || out->microbatch != op->microbatch || out->backward != backward)
        return sl_error(SL_EINVAL, "stage %d: the output changed between two parts", h->stage);
    out->part[op->part] = op->part + 1;
    return SL_OK;
}

/* Where activations are: counted as they come and go, on the rank's thread and its copy thread. */
enum { NOWHERE, ON_DEVICE, ON_HOST };

static inline sl_status go(holder *h, int microbatch, int from, int to) {
    member *m = h->member;
    const sl_problem *p = m->cluster->problem;
    pthread_mutex_lock(&m->mutex);
    int was = h->place[microbatch];
    h->place[microbatch] = (char)to;
    m->held += (to == ON_DEVICE) - (from == ON_DEVICE);
    m->hosted += (to == ON_HOST) - (from == ON_HOST);
    m->moved += to == ON_HOST;
    int held = m->held, hosted = m->hosted;
    pthread_mutex_unlock(&m->mutex);
    if (was != from)
        return sl_error(SL_EINVAL, "stage %d: microbatch %d is at %d, not %d", h->stage, microbatch, was,
                        from);
    if (sl_problem_offloads(p) && (held > p->limit[m->rank] || hosted > p->host_limit[m->rank]))
        return sl_error(SL_EINVAL, "rank %d holds %d and %d on the host", m->rank, held, hosted);
    return SL_OK;
}

static inline sl_status offload(void *object, int microbatch) {
    return go(object, microbatch, ON_DEVICE, ON_HOST);
}

static inline sl_status fetch(void *object, int microbatch) {
    return go(object, microbatch, ON_HOST, ON_DEVICE);
}

/* The update of the weights takes what the problem says. */
static inline sl_status prepare(void *object) {
    holder *h = object;
    const cluster *c = h->member->cluster;
    if (h->prepared++ != h->member->iteration)
        return sl_error(SL_EINVAL, "stage %d was prepared twice", h->stage);
    sl_clock_sleep_until(c->clock, sl_clock_now(c->clock) + c->problem->gather[h->stage]);
    return SL_OK;
}

static inline sl_status die(cluster *c) {
    for (int r = 0; c->aborts && r < c->problem->ranks; r++)
        if (c->member[r].transport)
            sl_transport_abort(c->member[r].transport);
    return sl_error(SL_ESYS, "this rank dies");
}

static inline sl_status forward(void *object, const sl_op *op, int parts, const void *input, void *output) {
    const holder *h = object;
    if (h->member->cluster->dies == h->member->rank + 1 && op->microbatch == 1)
        return die(h->member->cluster);
    SL_TRY(check_input(object, op, parts, 0, input));
    if (h->prepared != h->member->iteration + 1)
        return sl_error(SL_EINVAL, "stage %d ran before it was prepared", h->stage);
    if (op->part == 0)
        SL_TRY(go(object, op->microbatch, NOWHERE, ON_DEVICE));
    return make_output(object, op, 0, output);
}

static inline sl_status input_grad(void *object, const sl_op *op, int parts, const void *output_grad,
                                   void *grad) {
    SL_TRY(check_input(object, op, parts, 1, output_grad));
    SL_TRY(go(object, op->microbatch, ON_DEVICE, ON_DEVICE));
    return make_output(object, op, 1, grad);
}

static inline sl_status weight_grad(void *object, const sl_op *op, int parts) {
    holder *h = object;
    SL_TRY(go(h, op->microbatch, ON_DEVICE, op->part == parts - 1 ? NOWHERE : ON_DEVICE));
    if (op->microbatch <= h->last_weight[op->part])
        return sl_error(SL_EINVAL, "W out of order");
    h->last_weight[op->part] = op->microbatch;
    return SL_OK;
}

/* The bytes of a link's messages are all the same, or it has no transfer time. */
static inline void emulate_links(const cluster *c, int rank, sl_transport *transport) {
    for (int peer = 0; peer < c->problem->ranks; peer++) {
        const sl_link *link = &c->problem->link[rank * c->problem->ranks + peer];
        sl_link_emulation e = {.latency = link->latency};
        if (link->transfer > 0)
            e.bytes_per_second = (double)sizeof(payload) * 1e9 / (double)link->transfer;
        if (peer != rank)
            sl_transport_emulate(transport, peer, e);
    }
}

static inline void bind_stages(member *m, sl_stage *stage) {
    const cluster *c = m->cluster;
    for (int s = 0; s < c->problem->stages; s++) {
        stage[s] = (sl_stage){0};
        if (sl_problem_rank(c->problem, s) != m->rank)
            continue;
        int before = sl_problem_previous(c->problem, s);
        m->holder[s] = (holder){.member = m, .stage = s};
        stage[s] = (sl_stage){.object = &m->holder[s],
                              .prepare = prepare,
                              .forward = forward,
                              .input_grad = input_grad,
                              .weight_grad = weight_grad,
                              .offload = offload,
                              .fetch = fetch,
                              .input_bytes = before < 0 ? 0 : bytes_behind(c, before),
                              .output_bytes = bytes_behind(c, s)};
    }
}

static inline sl_time begin_of(int iteration) {
    return (1 + iteration) * 1000 * SL_SECOND;
}

/* The program's own order of issue, or PyTorch's. */
static inline sl_status issue_messages(const cluster *c, const sl_program *program, sl_engine *engine) {
    sl_issuer *issuer;
    SL_TRY(sl_issuer_open(program, &issuer));
    sl_status status = sl_issuer_run(issuer);
    SL_THEN(status, sl_engine_issue(engine, c->problem, issuer));
    sl_issuer_close(issuer);
    return status;
}

static inline sl_status run_iterations(member *m, sl_engine *engine) {
    const cluster *c = m->cluster;
    sl_pace pace = {.saved = c->problem->saved, .offload = c->problem->offload};
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        pace.time[kind] = c->problem->time[kind];
    sl_engine_pace(engine, &pace);
    for (m->iteration = 0; m->iteration < ITERATIONS; m->iteration++) {
        for (int s = 0; s < c->problem->stages; s++)
            for (int part = 0; part < MAX_PARTS; part++)
                m->holder[s].last_weight[part] = -1;
        SL_TRY(sl_engine_swap(engine, c->program[m->iteration], c->post[m->iteration]));
        if (c->problem->communication == SL_FIFO)
            SL_TRY(issue_messages(c, c->program[m->iteration], engine));
        SL_TRY(
            sl_engine_run(engine, (uint32_t)m->iteration, begin_of(m->iteration), &m->result[m->iteration]));
    }
    return SL_OK;
}

static inline sl_status run_member(member *m, sl_transport **transport, sl_engine **engine,
                                   sl_record_ring *ring) {
    const cluster *c = m->cluster;
    sl_stage stage[MAX_STAGES];
    sl_transport_config tc = {.rank = m->rank,
                              .ranks = c->problem->ranks,
                              .clock = c->clock,
                              .hub = c->hub,
                              .wire = c->problem->wire,
                              .message_bytes = sizeof(payload) + c->extra * MAX_STAGES,
                              .slots = 2 * c->problem->microbatches *
                                       (c->problem->stages / c->problem->ranks + 1)};
    if (c->problem->ranks > 1) {
        SL_TRY(sl_transport_open(&tc, -1, SL_SECOND, transport));
        emulate_links(c, m->rank, *transport);
        m->transport = *transport;
    }
    bind_stages(m, stage);
    sl_engine_config ec = {.rank = m->rank,
                           .clock = c->clock,
                           .transport = *transport,
                           .ring = ring,
                           .stage = stage,
                           .stages = c->problem->stages,
                           .regime = c->problem->communication,
                           .queue = c->problem->queue,
                           .patience = 100 * SL_SECOND};
    SL_TRY(sl_engine_open(&ec, engine));
    SL_TRY(run_iterations(m, *engine));
    uint64_t position = 0, lost = 0;
    m->records = sl_record_read(ring, ring->capacity, &position, m->record, MAX_RECORDS, &lost);
    return lost > 0 ? sl_error(SL_EINVAL, "records were lost") : SL_OK;
}

static inline void *member_main(void *object) {
    member *m = object;
    sl_record_ring *ring = calloc(1, sl_record_ring_bytes(MAX_RECORDS));
    sl_transport *transport = NULL;
    sl_engine *engine = NULL;
    sl_record_ring_init(ring, MAX_RECORDS);
    m->status = run_member(m, &transport, &engine, ring);
    snprintf(m->error, sizeof m->error, "%s", m->status == SL_OK ? "" : sl_error_text());
    sl_engine_close(engine);
    m->transport = NULL;
    sl_transport_close(transport);
    free(ring);
    sl_clock_leave(m->cluster->clock);
    return NULL;
}

/* Receives are posted as the plan predicts, unless `at_once`. */
static inline void predict_posts(cluster *c, int iteration, sl_time margin) {
    const sl_program *program = c->program[iteration];
    sl_timeline t;
    assert_ok(sl_replay(c->problem, program, c->problem->communication, c->problem->queue, &t));
    sl_time *start = calloc((size_t)t.spans + 1, sizeof *start);
    sl_time *sent = calloc((size_t)t.transfers + 1, sizeof *sent);
    for (int i = 0; i < t.spans; i++)
        start[i] = t.span[i].start;
    for (int i = 0; i < t.transfers; i++)
        sent[i] = t.transfer[i].start;
    c->post[iteration] = calloc((size_t)program->messages + 1, sizeof(int32_t));
    assert_ok(sl_program_post(program, start, sent, margin, c->post[iteration]));
    free(start);
    free(sent);
    sl_timeline_free(&t);
}

static inline void run_cluster(cluster *c) {
    const sl_problem *p = c->problem;
    assert_true(p->ranks <= MAX_RANKS && p->stages <= MAX_STAGES && p->parts <= MAX_PARTS &&
                p->microbatches <= MAX_MICROBATCHES);
    assert_ok(sl_clock_open_virtual(p->ranks, &c->clock));
    assert_ok(sl_transport_hub_open(p->ranks, sizeof(payload) + c->extra * MAX_STAGES,
                                    2 * p->microbatches * (p->stages / p->ranks + 1), &c->hub));
    for (int r = 0; r < p->ranks; r++) {
        c->member[r] = (member){.cluster = c, .rank = r};
        pthread_mutex_init(&c->member[r].mutex, NULL);
        c->member[r].record = calloc(MAX_RECORDS, sizeof(sl_record));
        pthread_create(&c->member[r].thread, NULL, member_main, &c->member[r]);
    }
    for (int r = 0; r < p->ranks; r++)
        pthread_join(c->member[r].thread, NULL);
    sl_transport_hub_close(c->hub);
    sl_clock_close(c->clock);
}

static inline void free_cluster(cluster *c) {
    for (int r = 0; r < c->problem->ranks; r++) {
        pthread_mutex_destroy(&c->member[r].mutex);
        free(c->member[r].record);
    }
    for (int i = 0; i < ITERATIONS; i++)
        free(c->post[i]);
}

static inline void assert_ran(const cluster *c) {
    for (int r = 0; r < c->problem->ranks; r++)
        if (c->member[r].status != SL_OK)
            fail_msg("rank %d: %s", r, c->member[r].error);
}

/* ---- comparing ---- */

/* Whether a message may have left before its receive was reached. */
static inline int is_awaited(const cluster *c, const sl_record *r) {
    const sl_message message = {.from = r->rank, .to = r->peer};
    return c->problem->communication == SL_FIFO && sl_message_is_eager(c->problem, &message);
}

static inline const sl_transfer *find_transfer(const sl_timeline *t, const sl_record *r) {
    for (int i = 0; i < t->transfers; i++) {
        const sl_transfer *x = &t->transfer[i];
        if (x->from == r->rank && x->op.kind == r->op && x->op.stage == r->stage &&
            x->op.microbatch == r->microbatch && x->op.part == r->part && x->op.paired == r->paired)
            return x;
    }
    return NULL;
}

static inline void compare_transfer(const cluster *c, const sl_timeline *predicted, const sl_record *r,
                                    sl_time begin) {
    const sl_transfer *t = find_transfer(predicted, r);
    if (!t)
        fail_msg("rank %d sent what is not in the prediction", r->rank);
    assert_int_equal(r->peer, t->to);
    assert_int_equal(r->start - begin, t->start);
    assert_int_equal(r->end - begin, t->end);
    assert_int_equal(r->arrive, r->due);
    if (is_awaited(c, r)) /* its receive may be reached after it came */
        assert_in_range(r->arrive - begin, t->end, t->arrive);
    else
        assert_int_equal(r->arrive - begin, t->arrive);
}

static inline void compare_op(const sl_span *span, const sl_record *r, sl_time begin) {
    assert_int_equal(span->rank, r->rank);
    assert_int_equal(span->op.kind, r->op);
    assert_int_equal(span->op.stage, r->stage);
    assert_int_equal(span->op.microbatch, r->microbatch);
    assert_int_equal(span->op.part, r->part);
    assert_int_equal(span->op.paired, r->paired);
    assert_int_equal(r->start - begin, span->start);
    assert_int_equal(r->end - begin, span->end);
}

/* Every recorded op and transfer of an iteration equals the predicted one, in the predicted order. */
static inline void compare(const cluster *c, int iteration) {
    sl_timeline predicted;
    sl_time begin = begin_of(iteration);
    int span = 0, transfers = 0, collective = 0;
    assert_ok(sl_replay(c->problem, c->program[iteration], c->problem->communication, c->problem->queue,
                        &predicted));
    for (int r = 0; r < c->problem->ranks; r++) {
        const member *m = &c->member[r];
        sl_time last = 0;
        for (size_t i = 0; i < m->records; i++) {
            const sl_record *record = &m->record[i];
            if (record->iteration != iteration)
                continue;
            if (record->kind == SL_RECORD_OP) {
                assert_true(span < predicted.spans);
                last = predicted.span[span].end;
                compare_op(&predicted.span[span++], record, begin);
            } else if (record->kind == SL_RECORD_OPTIMIZER && c->problem->gather[record->stage] == 0) {
                assert_int_equal(record->start, record->end);
            } else if (record->kind == SL_RECORD_MOVE || record->kind == SL_RECORD_OPTIMIZER) {
                assert_true(collective < predicted.collectives);
                compare_op(&predicted.collective[collective++], record, begin);
            } else {
                compare_transfer(c, &predicted, record, begin);
                transfers++;
            }
        }
        assert_int_equal(m->result[iteration].end - begin, last);
        assert_int_equal(m->result[iteration].overruns, 0);
    }
    assert_int_equal(span, predicted.spans);
    assert_int_equal(collective, predicted.collectives);
    assert_int_equal(transfers, predicted.transfers);
    sl_timeline_free(&predicted);
}

#endif
