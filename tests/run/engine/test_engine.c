/* The engine on the virtual clock, with ranks as threads and empty paced ops: what runs is what the timing
 * model predicts, to the nanosecond, in both regimes. */
#include "check.h"

#include "plan/search/plan.h"
#include "plan/timing/replay.h"
#include "run/engine/engine.h"
#include <pthread.h>

enum { MOST_RANKS = 4, MOST_RECORDS = 1024 };

typedef struct cluster cluster;

typedef struct member {
    cluster *cluster;
    int rank;
    pthread_t thread;
    sl_record record[MOST_RECORDS];
    size_t records;
    int last_w, calls;
    sl_status status;
    char error[256];
} member;

struct cluster {
    const sl_problem *problem;
    const sl_program *first, *second; /* second: swapped in before iteration 1 */
    sl_clock *clock;
    sl_transport_hub *hub;
    size_t bytes;
    member member[MOST_RANKS];
};

/* Each message carries (stage, microbatch), so that a message which went astray is noticed. */
typedef struct payload {
    int32_t kind, stage, microbatch;
} payload;

static sl_status forward(void *object, const sl_op *op, int parts, const void *input, void *output) {
    int microbatch = op->microbatch;
    (void)parts;
    member *m = object;
    const payload *in = input;
    m->calls++;
    if (in && (in->kind != SL_F || in->stage != m->rank - 1 || in->microbatch != microbatch))
        return sl_error(SL_EINVAL, "a wrong activation arrived");
    if (output)
        *(payload *)output = (payload){.kind = SL_F, .stage = m->rank, .microbatch = microbatch};
    return SL_OK;
}

static sl_status input_grad(void *object, const sl_op *op, int parts, const void *output_grad, void *grad) {
    int microbatch = op->microbatch;
    (void)parts;
    member *m = object;
    const payload *in = output_grad;
    m->calls++;
    if (in && (in->kind != SL_I || in->stage != m->rank + 1 || in->microbatch != microbatch))
        return sl_error(SL_EINVAL, "a wrong gradient arrived");
    if (grad)
        *(payload *)grad = (payload){.kind = SL_I, .stage = m->rank, .microbatch = microbatch};
    return SL_OK;
}

static sl_status weight_grad(void *object, const sl_op *op, int parts) {
    int microbatch = op->microbatch;
    (void)parts;
    member *m = object;
    m->calls++;
    if (microbatch != (m->last_w + 1) % m->cluster->problem->microbatches)
        return sl_error(SL_EINVAL, "W out of order");
    m->last_w = microbatch;
    return SL_OK;
}

static void emulate_links(const cluster *c, int rank, sl_transport *transport) {
    for (int peer = rank - 1; peer <= rank + 1; peer += 2) {
        if (peer < 0 || peer >= c->problem->ranks)
            continue;
        const sl_link *link = &c->problem->link[rank * c->problem->ranks + peer];
        sl_link_emulation e = {.latency = link->latency};
        if (link->transfer > 0)
            e.bytes_per_second = (double)sizeof(payload) * 1e9 / (double)link->transfer;
        sl_transport_emulate(transport, peer, e);
    }
}

static sl_status run_member(member *m) {
    cluster *c = m->cluster;
    int ranks = c->problem->ranks;
    char peers[MOST_RANKS] = {0};
    for (int r = 0; r < ranks; r++)
        peers[r] = r == m->rank - 1 || r == m->rank + 1;
    sl_record_ring *ring = calloc(1, sl_record_ring_bytes(MOST_RECORDS));
    sl_record_ring_init(ring, MOST_RECORDS);
    sl_transport_config tc = {.rank = m->rank,
                              .ranks = ranks,
                              .clock = c->clock,
                              .hub = c->hub,
                              .message_bytes = sizeof(payload),
                              .slots = 2 * c->problem->microbatches,
                              .peers = peers};
    sl_transport *transport = NULL;
    sl_engine *engine = NULL;
    SL_TRY(sl_transport_open(&tc, -1, SL_SECOND, &transport));
    emulate_links(c, m->rank, transport);
    sl_engine_config ec = {.rank = m->rank,
                           .clock = c->clock,
                           .transport = transport,
                           .ring = ring,
                           .regime = c->problem->communication,
                           .queue = c->problem->queue,
                           .patience = 10 * SL_SECOND,
                           .stage = {.object = m,
                                     .forward = forward,
                                     .input_grad = input_grad,
                                     .weight_grad = weight_grad,
                                     .input_bytes = m->rank > 0 ? sizeof(payload) : 0,
                                     .output_bytes = m->rank + 1 < ranks ? sizeof(payload) : 0}};
    sl_status status = sl_engine_open(&ec, &engine);
    sl_time pace[SL_OP_KINDS];
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        pace[kind] = c->problem->time[kind][m->rank];
    for (int iteration = 0; iteration < 2 && status == SL_OK; iteration++) {
        sl_engine_result result;
        status = sl_engine_swap(engine, iteration == 0 ? c->first : c->second);
        sl_engine_pace(engine, pace);
        if (status == SL_OK)
            status = sl_engine_run(engine, (uint32_t)iteration, (1 + iteration) * 100 * SL_SECOND, &result);
    }
    uint64_t position = 0, lost = 0;
    m->records = sl_record_read(ring, &position, m->record, MOST_RECORDS, &lost);
    sl_engine_close(engine);
    sl_transport_close(transport);
    free(ring);
    return status;
}

static void *member_main(void *object) {
    member *m = object;
    m->last_w = -1;
    m->status = run_member(m);
    snprintf(m->error, sizeof m->error, "%s", sl_error_text());
    sl_clock_leave(m->cluster->clock);
    return NULL;
}

static void run_cluster(cluster *c) {
    int ranks = c->problem->ranks;
    assert_ok(sl_clock_open_virtual(ranks, &c->clock));
    assert_ok(sl_transport_hub_open(ranks, sizeof(payload), 2 * c->problem->microbatches, &c->hub));
    for (int r = 0; r < ranks; r++) {
        c->member[r] = (member){.cluster = c, .rank = r};
        pthread_create(&c->member[r].thread, NULL, member_main, &c->member[r]);
    }
    for (int r = 0; r < ranks; r++)
        pthread_join(c->member[r].thread, NULL);
    sl_transport_hub_close(c->hub);
    sl_clock_close(c->clock);
    for (int r = 0; r < ranks; r++)
        if (c->member[r].status != SL_OK)
            fail_msg("rank %d: %s", r, c->member[r].error);
}

/* Every recorded op and transfer of an iteration equals the predicted one. */
static void compare(const cluster *c, const sl_program *program, int iteration) {
    sl_timeline predicted;
    assert_ok(sl_replay(c->problem, program, c->problem->communication, c->problem->queue, &predicted));
    int spans = 0, transfers = 0;
    for (int r = 0; r < c->problem->ranks; r++)
        for (size_t i = 0; i < c->member[r].records; i++) {
            const sl_record *record = &c->member[r].record[i];
            sl_time begin = (1 + iteration) * 100 * SL_SECOND;
            if (record->iteration != iteration)
                continue;
            int found = 0;
            for (int s = 0; record->kind == SL_RECORD_OP && s < predicted.spans; s++) {
                const sl_span *span = &predicted.span[s];
                if (span->op.kind != record->op || span->op.stage != record->stage ||
                    span->op.microbatch != record->microbatch)
                    continue;
                found = ++spans > 0;
                assert_int_equal(record->start - begin, span->start);
                assert_int_equal(record->end - begin, span->end);
            }
            for (int s = 0; record->kind == SL_RECORD_TRANSFER && s < predicted.transfers; s++) {
                const sl_transfer *t = &predicted.transfer[s];
                if (t->op.kind != record->op || t->from != record->rank ||
                    t->op.microbatch != record->microbatch)
                    continue;
                found = ++transfers > 0;
                assert_int_equal(record->start - begin, t->start);
                assert_int_equal(record->arrive - begin, t->arrive);
            }
            assert_true(found);
        }
    assert_int_equal(spans, predicted.spans);
    assert_int_equal(transfers, predicted.transfers);
    sl_timeline_free(&predicted);
}

static void make_problem(sl_problem *p, int ranks, int microbatches, unsigned *seed) {
    assert_ok(sl_problem_make(ranks, ranks, microbatches, p));
    for (int stage = 0; stage < ranks; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++) {
            *seed = *seed * 1664525u + 1013904223u;
            p->time[kind][stage] = (1 + (*seed >> 16) % 20) * SL_MS / 2;
        }
        p->time[SL_B][stage] = p->time[SL_I][stage] + p->time[SL_W][stage];
    }
    for (int i = 0; i < ranks * ranks; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        p->link[i].latency = (*seed >> 16) % 3 == 0 ? (*seed >> 20) % 60 * SL_MS : 0;
        p->link[i].transfer = (*seed >> 24) % 4 == 0 ? 12 * SL_MS : 0;
    }
}

static void what_runs_is_what_was_predicted_to_the_nanosecond(void **state) {
    (void)state;
    const char *given = getenv("SL_SEED");
    unsigned seed = given ? (unsigned)atoi(given) : 7u;
    printf("seed %u\n", seed);
    static const char *const families[] = {"gpipe", "1f1b", "zb-h1", "zb-h2", "adaptra"};
    for (int round = 0; round < 40; round++) {
        sl_problem problem;
        sl_plan a, b;
        make_problem(&problem, 2 + round % 3, 3 + round % 10, &seed);
        problem.communication = round % 2 ? SL_INORDER : SL_DECOUPLED;
        problem.queue = 1 + round % 3;
        assert_ok(sl_plan_make(&problem, families[round % 5], &a));
        assert_ok(sl_plan_make(&problem, families[(round + 2) % 5], &b));
        cluster c = {.problem = &problem, .first = &a.program, .second = &b.program};
        run_cluster(&c);
        compare(&c, &a.program, 0);
        compare(&c, &b.program, 1);
        sl_plan_free(&a);
        sl_plan_free(&b);
        sl_problem_free(&problem);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_runs_is_what_was_predicted_to_the_nanosecond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
