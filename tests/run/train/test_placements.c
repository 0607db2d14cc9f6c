/* Several stages a rank, with the real model: ranks as threads on a virtual clock, each with an engine, its
 * stages in one arena of exactly the size that lowering counts. Loss and gradients have the bits of one stage
 * in one process, for every placement, family, regime and number of parts. */
#include "run/model/trial.h"

#include "plan/family/family.h"
#include "plan/lower/program.h"
#include "run/binding/gradient_norm.h"
#include "run/binding/hash.h"
#include "run/engine/engine.h"
#include "run/transport/hub.h"
#include "virtual_clock.h"
#include <pthread.h>

enum { MAX_RANKS = 4, MAX_STAGES = 9, RECORDS = 4096, MICROBATCHES = 6 };

typedef struct job job;

typedef struct holder {
    const job *job;
    int stage;
    sl_model_stage *model;
} holder;

typedef struct worker {
    job *job;
    int rank;
    pthread_t thread;
    sl_device *device;
    sl_arena *arena;
    sl_status status;
    char error[256];
} worker;

struct job {
    const trial *text; /* tokens and targets */
    sl_problem problem;
    sl_program program;
    sl_clock *clock;
    sl_transport_hub *hub;
    size_t message;
    uint64_t seed;
    holder holder[MAX_STAGES];
    worker worker[MAX_RANKS];
};

/* ---- the tables ---- */

static sl_status forward(void *object, const sl_op *op, int parts, const void *input, void *output) {
    const holder *h = object;
    const trial *t = h->job->text;
    size_t at = (size_t)op->microbatch * (size_t)t->config.batch * (size_t)t->config.context;
    return sl_model_forward_part(h->model, op->microbatch, (sl_op_part){op->part, parts}, t->tokens + at,
                                 t->targets + at, input, output);
}

static sl_status input_grad(void *object, const sl_op *op, int parts, const void *output_grad, void *grad) {
    return sl_model_input_grad_part(((holder *)object)->model, op->microbatch, (sl_op_part){op->part, parts},
                                    output_grad, grad);
}

static sl_status weight_grad(void *object, const sl_op *op, int parts) {
    return sl_model_weight_grad_part(((holder *)object)->model, op->microbatch,
                                     (sl_op_part){op->part, parts});
}

/* ---- a rank ---- */

static sl_status open_stages(worker *w, sl_stage *table) {
    job *j = w->job;
    const sl_problem *p = &j->problem;
    sl_model_bytes one, most = {0};
    SL_TRY(sl_device_open_cpu(1, &w->device));
    for (int s = 0; s < p->stages; s++)
        if (sl_problem_rank(p, s) == w->rank) {
            SL_TRY(sl_model_measure(&j->text->config, w->device, s, p->stages, &one));
            most.fixed += one.fixed;
            most.forward = one.forward > most.forward ? one.forward : most.forward;
            most.backward = one.backward > most.backward ? one.backward : most.backward;
        }
    SL_TRY(sl_arena_open(
        w->device, most.fixed + (size_t)j->program.rank[w->rank].buffers * (most.forward + most.backward),
        &w->arena));
    for (int s = 0; s < p->stages; s++) {
        table[s] = (sl_stage){0};
        if (sl_problem_rank(p, s) != w->rank)
            continue;
        holder *h = &j->holder[s];
        SL_TRY(sl_model_stage_open(&j->text->config, w->device, w->arena, s, p->stages, j->seed, &h->model));
        sl_model_stage_pad(h->model, most.forward, most.backward);
        SL_TRY(sl_model_begin(h->model, p->microbatches));
        table[s] = (sl_stage){.object = h,
                              .forward = forward,
                              .input_grad = input_grad,
                              .weight_grad = weight_grad,
                              .input_bytes = s > 0 ? j->message : 0,
                              .output_bytes = s + 1 < p->stages ? j->message : 0};
    }
    return SL_OK;
}

static sl_status iterate(worker *w, sl_transport **transport, sl_engine **engine, sl_record_ring *ring) {
    job *j = w->job;
    const sl_problem *p = &j->problem;
    sl_stage table[MAX_STAGES];
    sl_engine_result result;
    sl_transport_config tc = {.rank = w->rank,
                              .ranks = p->ranks,
                              .clock = j->clock,
                              .hub = j->hub,
                              .message_bytes = j->message,
                              .slots = 2 * p->microbatches * p->stages};
    SL_TRY(open_stages(w, table));
    if (p->ranks > 1)
        SL_TRY(sl_transport_open(&tc, -1, SL_SECOND, transport));
    for (int peer = 0; peer < p->ranks && *transport; peer++)
        if (peer != w->rank)
            sl_transport_emulate(*transport, peer,
                                 (sl_link_emulation){.latency = p->link[w->rank * p->ranks + peer].latency});
    sl_engine_config config = {.rank = w->rank,
                               .clock = j->clock,
                               .transport = *transport,
                               .ring = ring,
                               .stage = table,
                               .stages = p->stages,
                               .regime = p->communication,
                               .queue = p->queue,
                               .patience = 100 * SL_SECOND};
    SL_TRY(sl_engine_open(&config, engine));
    sl_pace pace = {.saved = p->saved};
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        pace.time[kind] = p->time[kind];
    sl_engine_pace(*engine, &pace);
    SL_TRY(sl_engine_swap(*engine, &j->program, NULL));
    return sl_engine_run(*engine, 0, 1000 * SL_SECOND, &result);
}

static void *worker_main(void *object) {
    worker *w = object;
    sl_record_ring *ring = calloc(1, sl_record_ring_bytes(RECORDS));
    sl_transport *transport = NULL;
    sl_engine *engine = NULL;
    sl_record_ring_init(ring, RECORDS);
    w->status = iterate(w, &transport, &engine, ring);
    snprintf(w->error, sizeof w->error, "%s", w->status == SL_OK ? "" : sl_error_text());
    sl_engine_close(engine);
    sl_transport_close(transport);
    free(ring);
    sl_clock_leave(w->job->clock);
    return NULL;
}

/* ---- what came out ---- */

typedef struct outcome {
    double loss;
    uint64_t gradients; /* hash over all of them in canonical order, the head's added to the embedding's */
} outcome;

static void hash_gradients(sl_parameter *p, void *hash) {
    sl_hash_add(hash, p->gradient, p->count);
}

static outcome outcome_of(sl_model_stage **model, int stages) {
    outcome o = {0};
    sl_hash *hash;
    assert_ok(sl_hash_open(&hash));
    for (int m = 0; m < MICROBATCHES; m++)
        o.loss += sl_model_loss(model[stages - 1], m);
    for (int s = 0; s < stages; s++) {
        int count;
        sl_parameter *list = sl_model_parameters(model[s], &count);
        for (int i = 0; i < count; i++)
            hash_gradients(&list[i], hash);
    }
    o.gradients = sl_hash_value(hash);
    sl_hash_close(hash);
    return o;
}

static outcome reference(trial *t) {
    trial_iterate(t, TRIAL_ONE_BY_ONE); /* adds the head's gradient */
    return outcome_of(t->stage, 1);
}

typedef struct layout {
    int ranks, stages, placement, parts, regime;
    const char *family;
} layout;

static void make_problem(const layout *l, uint64_t *seed, job *j) {
    sl_problem *p = &j->problem;
    assert_ok(sl_problem_make(l->ranks, l->stages, MICROBATCHES, p));
    p->placement = (sl_placement)l->placement;
    p->parts = l->parts;
    p->communication = (sl_regime)l->regime;
    /* far longer than the arithmetic, whose time passes on no clock here; unequal, so that orders differ */
    for (int s = 0; s < l->stages; s++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            p->time[kind][s] = (sl_time)(5 + trial_random(seed) % 10) * SL_MS;
        p->time[SL_B][s] = p->time[SL_I][s] + p->time[SL_W][s];
    }
    for (int i = 0; i < l->ranks * l->ranks; i++)
        p->link[i].latency = (sl_time)(trial_random(seed) % 20) * SL_MS;
}

static void run_job(job *j) {
    const sl_problem *p = &j->problem;
    assert_ok(sl_clock_open_virtual(p->ranks, &j->clock));
    assert_ok(sl_transport_hub_open(p->ranks, j->message, 2 * p->microbatches * p->stages, &j->hub));
    for (int r = 0; r < p->ranks; r++) {
        j->worker[r] = (worker){.job = j, .rank = r};
        pthread_create(&j->worker[r].thread, NULL, worker_main, &j->worker[r]);
    }
    for (int r = 0; r < p->ranks; r++)
        pthread_join(j->worker[r].thread, NULL);
    sl_transport_hub_close(j->hub);
    sl_clock_close(j->clock);
}

static void close_job(job *j) {
    for (int s = 0; s < j->problem.stages; s++)
        sl_model_stage_close(j->holder[s].model);
    for (int r = 0; r < j->problem.ranks; r++) {
        assert_int_equal(sl_arena_in_use(j->worker[r].arena), 0);
        sl_arena_close(j->worker[r].arena);
        j->worker[r].device->close(j->worker[r].device);
    }
    sl_program_free(&j->program);
    sl_problem_free(&j->problem);
}

static outcome train(const layout *l, const trial *text, uint64_t seed) {
    job j = {.text = text, .seed = seed};
    sl_order order = {0};
    sl_model_stage *model[MAX_STAGES];
    uint64_t draws = seed;
    j.message = (size_t)text->config.batch * (size_t)text->config.context * (size_t)text->config.width *
                sizeof(float);
    make_problem(l, &draws, &j);
    assert_ok(sl_family_build(sl_family_find(l->family), &j.problem, &order));
    assert_ok(sl_lower(&j.problem, &order, &j.program));
    sl_order_free(&order);
    for (int s = 0; s < l->stages; s++)
        j.holder[s] = (holder){.job = &j, .stage = s};
    run_job(&j);
    for (int r = 0; r < l->ranks; r++)
        if (j.worker[r].status != SL_OK)
            fail_msg("%s, %d ranks, rank %d: %s", l->family, l->ranks, r, j.worker[r].error);
    for (int s = 0; s < l->stages; s++)
        model[s] = j.holder[s].model;
    assert_ok(sl_model_add_head(model[0], sl_model_head(model[l->stages - 1])->gradient, 0));
    outcome o = outcome_of(model, l->stages);
    close_job(&j);
    return o;
}

static void placements_families_regimes_and_parts_change_no_bit(void **state) {
    (void)state;
    static const layout layouts[] = {
        {1, 1, SL_LINEAR, 1, SL_DECOUPLED, "1f1b"},
        {4, 4, SL_LINEAR, 1, SL_DECOUPLED, "zb-h2"},
        {2, 4, SL_LOOP, 1, SL_DECOUPLED, "interleaved-1f1b"},
        {4, 8, SL_LOOP, 1, SL_DECOUPLED, "interleaved-1f1b"},
        {4, 8, SL_LOOP, 1, SL_INORDER, "interleaved-1f1b"},
        {4, 8, SL_LOOP, 1, SL_BATCHED, "interleaved-1f1b"},
        {3, 9, SL_LOOP, 1, SL_DECOUPLED, "gpipe"},
        {1, 2, SL_WAVE, 1, SL_DECOUPLED, "zb-v"},
        {2, 4, SL_WAVE, 1, SL_DECOUPLED, "zb-v"},
        {3, 6, SL_WAVE, 1, SL_INORDER, "zb-v"},
        {4, 8, SL_WAVE, 1, SL_BATCHED, "zb-v"},
        {2, 4, SL_WAVE, 1, SL_DECOUPLED, "dualpipe-v"},
        {2, 8, SL_WAVE, 2, SL_DECOUPLED, "gpipe"},
        {3, 6, SL_WAVE, 3, SL_INORDER, "zb-v"},
        {4, 4, SL_LINEAR, 2, SL_DECOUPLED, "cross-ud-sub"},
        {4, 4, SL_LINEAR, 3, SL_BATCHED, "cross-ud-sub"},
        {2, 2, SL_LINEAR, 7, SL_DECOUPLED, "1f1b"},          /* B in parts: I and W of each part in turn */
        {4, 4, SL_LINEAR, 40, SL_DECOUPLED, "cross-ud-sub"}, /* more parts than halves of blocks */
    };
    /* 9 layers: stages of one rank differ in size, and share their memory all the same */
    const sl_model_config c = {
        .layers = 9, .width = 32, .heads = 4, .context = 12, .vocabulary = 256, .batch = 2};
    uint64_t seed = trial_seed();
    trial t;
    trial_open(&t, &c, 1, MICROBATCHES, seed);
    outcome one = reference(&t);
    assert_true(isfinite(one.loss));
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const layout *l = &layouts[i];
        outcome other = train(l, &t, seed);
        if (other.loss != one.loss || other.gradients != one.gradients)
            fail_msg("%s, %d ranks, %d stages (%s), %d parts, regime %d: loss %.17g and %.17g, gradients "
                     "%016llx and %016llx",
                     l->family, l->ranks, l->stages, sl_placement_name((sl_placement)l->placement), l->parts,
                     l->regime, one.loss, other.loss, (unsigned long long)one.gradients,
                     (unsigned long long)other.gradients);
    }
    outcome different = train(&layouts[2], &t, seed + 1);
    assert_true(different.gradients != one.gradients);
    trial_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placements_families_regimes_and_parts_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
