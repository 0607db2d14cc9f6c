/* Shapes, positions, bounds and the search over shapes, on models small enough for a hand calculation or for
 * trying every shape. */
#include "check.h"

#include "base/memory.h"
#include "choose/search/positions.h"
#include "choose/search/shape_arrange.h"
#include "choose/search/shape_search.h"
#include "plan/pipeline/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MS 1e-3

/* Equal measured layers: F, I and W of 1 ms for one sequence, that keep `kept` bytes and have `parameters`.
 */
static void make_model(int layers, long long sequences, double kept, double parameters, sl_model_work *m) {
    *m = (sl_model_work){.context = 1000,
                         .sequences = sequences,
                         .layers = layers,
                         .kinds = 1,
                         .activation_bytes = 2,
                         .weight_bytes = 2,
                         .gradient_bytes = 2,
                         .optimizer_bytes = 4};
    m->layer = calloc((size_t)layers, sizeof *m->layer);
    m->kind = calloc(1, sizeof *m->kind);
    m->kind[0] = (sl_layer_sizes){.kind = SL_LAYER_MEASURED,
                                  .tensor = 1,
                                  .size = 1,
                                  .seconds = {MS, MS, MS},
                                  .kept = kept,
                                  .kept_for_w = kept,
                                  .input = kept / 10,
                                  .output = 1000,
                                  .parameters = parameters};
}

static void free_model(sl_model_work *m) {
    free(m->layer);
    free(m->kind);
}

/* `each` devices a host; between hosts as given, within a host for free. */
static void make_devices(int hosts, int each, double memory, double latency_ns, double pace, sl_devices *d) {
    *d = (sl_devices){.count = hosts * each, .hosts = hosts, .flops_per_s = 1e12, .bytes_per_s = 0};
    d->device = calloc((size_t)d->count, sizeof *d->device);
    d->latency = calloc((size_t)(hosts * hosts), sizeof *d->latency);
    d->pace = calloc((size_t)(hosts * hosts), sizeof *d->pace);
    for (int i = 0; i < d->count; i++)
        d->device[i] = (sl_cluster_device){.host = i / each, .speed = 1, .memory = memory};
    for (int i = 0; i < hosts * hosts; i++)
        if (i / hosts != i % hosts) {
            d->latency[i] = latency_ns;
            d->pace[i] = pace;
        }
}

static void free_devices(sl_devices *d) {
    free(d->device);
    free(d->latency);
    free(d->pace);
}

static double seconds = 2; /* of a search; more where the machine is busy */

static sl_status choose(const sl_model_work *m, const sl_devices *d, const sl_shape_fixed *fixed,
                        sl_choices *found) {
    const sl_choose_options options = {
        .fixed = *fixed, .time_limit = seconds, .most = 8, .threads = 2, .seed = 1};
    return sl_choose(m, d, &options, found);
}

/* Two devices, four layers, four sequences: each replica takes two, 2 * 4 * 3 ms; a pipeline has ends in
 * addition. */
static void free_sums_make_replicas_best(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_choices found;
    const sl_shape_fixed any = sl_shape_free();
    make_model(4, 4, 100, 0, &m);
    make_devices(2, 1, 0, 0, 0, &d);
    assert_ok(choose(&m, &d, &any, &found));
    assert_int_equal(found.choice[0].shape.data, 2);
    assert_int_equal(found.choice[0].shape.pipeline, 1);
    assert_int_equal(found.choice[0].time, 24 * SL_MS);
    assert_near(found.choice[0].tokens_per_s, 4000 / 0.024, 1);
    assert_true(found.bound <= 24 * SL_MS);
    sl_choices_free(&found);
    free_model(&m);
    free_devices(&d);
}

/* Four sequences on one replica: microbatches of 1, 2 and 4. */
static void every_size_of_a_microbatch_is_there(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_shape *shape;
    size_t count;
    sl_shape_fixed fixed = sl_shape_free();
    fixed.pipeline = 2;
    fixed.chunks = 1;
    fixed.again = 0;
    make_model(4, 4, 100, 0, &m);
    make_devices(2, 1, 0, 0, 0, &d);
    assert_ok(sl_shapes_list(&m, &d, &fixed, &shape, &count));
    assert_int_equal(count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(shape[i].division.size, 1 << i);
        assert_int_equal(shape[i].microbatches, 4 >> i);
    }
    sl_free(shape);
    free_model(&m);
    free_devices(&d);
}

/* A million parameters a layer take 2 + 2 + 4 bytes each, 32 MB in all; a device has 20 MB. */
static void what_does_not_fit_is_divided(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_choices found;
    sl_shape_fixed fixed = sl_shape_free();
    fixed.zero = 0;
    make_model(4, 4, 100, 1e6, &m);
    make_devices(2, 1, 20e6, 0, 0, &d);
    assert_ok(choose(&m, &d, &fixed, &found));
    assert_int_equal(found.choice[0].shape.pipeline, 2);
    assert_true(found.choice[0].memory <= 20e6 && found.choice[0].memory >= 16e6);
    sl_choices_free(&found);
    fixed.data = 2;
    assert_fails(choose(&m, &d, &fixed, &found), SL_ENONE, "fits into the memory");
    sl_choices_free(&found);
    fixed.data = 3;
    assert_fails(choose(&m, &d, &fixed, &found), SL_ENONE,
                 "no shape divides 4 sequences of 4 layers over 2 devices");
    sl_choices_free(&found);
    free_model(&m);
    free_devices(&d);
}

/* The allreduce of 4 * 1e6 gradients of 2 bytes over two replicas: 2 passes of 1 latency and half of the 8
 * MB, at 1 ns a byte 8 ms in addition to the 24. With ZeRO 1 as much: the second pass is that of the weights.
 */
static void sums_over_replicas_count(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_choices found;
    sl_shape_fixed fixed = sl_shape_free();
    fixed.data = 2;
    make_model(4, 4, 100, 1e6, &m);
    make_devices(2, 1, 0, 1000, 1, &d);
    for (fixed.zero = 0; fixed.zero < 2; fixed.zero++) {
        assert_ok(choose(&m, &d, &fixed, &found));
        assert_near((double)found.choice[0].time, 32.0 * SL_MS + 4 * 2 * 1000, 10);
        assert_near(found.choice[0].parts.summed, 8e-3 + 8e-6, 1e-8);
        assert_near(found.choice[0].memory, 4e6 * (fixed.zero ? 6 : 8) + 400, 1);
        sl_choices_free(&found);
    }
    free_model(&m);
    free_devices(&d);
}

/* A gated block of width 8, one key per query, an MLP of 16, 32 tokens: 4 * 64 + 3 * 128 + 2 * 8 parameters;
 * the embedding has 32 * 8, and the head 8 (its norm) and, unless it is tied, 32 * 8. */
#define BLOCK (4 * 64 + 3 * 128 + 2 * 8)
#define TABLE (32 * 8)

static void make_llama(const char *tied, sl_model_work *m) {
    char text[256];
    sl_document document;
    snprintf(
        text, sizeof text,
        "model: {layers: 2, width: 8, heads: 2, hidden: 16, gated: true, vocabulary: 32, context: 16, tied: "
        "%s}\nbatch: {sequences: 2}\n",
        tied);
    assert_ok(sl_document_parse("llama.yaml", text, &document));
    assert_ok(sl_model_work_read(&document, "llama.yaml", m));
    sl_document_close(&document);
}

static void problem_of(const sl_model_work *m, const sl_devices *d, const sl_shape *s, sl_problem *p,
                       sl_shape_parts *parts) {
    sl_position_table plans = {.devices = d};
    const sl_positions *positions;
    assert_ok(sl_division_check(m, &s->division));
    assert_ok(sl_positions_of(&plans, s, &positions));
    assert_ok(sl_shape_problem(m, d, positions, s, 2, p, parts));
    sl_position_table_free(&plans);
}

/* One replica of two context ranks: both have all parameters and half of the tokens, so gradients are summed
 * over them. Four layers, each an allreduce of 4 bytes a parameter: 2 steps of 1000 ns, and twice half of the
 * bytes at 1 ns. ZeRO is about replicas. */
static void context_ranks_of_one_replica_sum_their_gradients(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_problem p;
    sl_shape_parts parts;
    sl_shape s = {.division = {.tensor = 1, .context = 2, .expert = 1, .size = 1},
                  .data = 1,
                  .pipeline = 1,
                  .chunks = 1};
    make_llama("false", &m);
    make_devices(2, 1, 0, 1000, 1, &d);
    d.bytes_per_s = 1e12;
    problem_of(&m, &d, &s, &p, &parts);
    double bytes = 4.0 * (2 * BLOCK + TABLE + TABLE + 8);
    assert_near(parts.summed, (4 * 2 * 1000 + bytes) * 1e-9, 1e-12);
    assert_near((double)p.reduce[0], 4 * 2 * 1000 + bytes, 4);
    assert_int_equal(p.gather[0], 0);
    sl_problem_free(&p);
    s.division.context = 1;
    problem_of(&m, &d, &s, &p, &parts);
    assert_near(parts.summed, 0, 0);
    assert_int_equal(p.reduce[0], 0);
    sl_problem_free(&p);
    sl_model_work_free(&m);
    free_devices(&d);
}

/* 2 + 4 + 12 bytes a parameter. On one rank, a tied head adds its norm alone, on two also a copy of the
 * table. */
static void a_tied_head_on_the_rank_of_the_embedding_takes_no_memory(void **state) {
    (void)state;
    const struct {
        const char *tied;
        int pipeline, parameters;
    } cases[] = {{"true", 1, 2 * BLOCK + TABLE + 8},
                 {"true", 2, 2 * BLOCK + 2 * TABLE + 8},
                 {"false", 1, 2 * BLOCK + 2 * TABLE + 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sl_model_work m;
        sl_devices d;
        sl_problem p;
        sl_shape_parts parts;
        double bytes = 0;
        sl_shape s = {.division = {.tensor = 1, .context = 1, .expert = 1, .size = 1},
                      .data = 1,
                      .pipeline = cases[i].pipeline,
                      .chunks = 1};
        make_llama(cases[i].tied, &m);
        make_devices(1, 2, 1e9, 0, 0, &d);
        d.bytes_per_s = 1e12;
        problem_of(&m, &d, &s, &p, &parts);
        for (int rank = 0; rank < p.ranks; rank++)
            bytes += p.fixed[rank];
        assert_near(bytes, 18.0 * cases[i].parameters, 1e-6);
        sl_problem_free(&p);
        sl_model_work_free(&m);
        free_devices(&d);
    }
}

/* Two sites of two hosts with two devices; 5 ms between the sites, 1 ms within one. */
static void positions_know_what_crosses_a_site(void **state) {
    (void)state;
    sl_devices d;
    make_devices(4, 2, 0, 0, 0, &d);
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            d.latency[a * 4 + b] = a == b ? 0 : a / 2 == b / 2 ? 1e6 : 5e6;
    d.device[7].speed = 0.5;
    sl_shape s = {.division = {.tensor = 2, .context = 1, .expert = 1, .size = 1}, .data = 2, .pipeline = 2};
    sl_position_table plans = {.devices = &d};
    const sl_positions *positions;
    /* stage 0 on hosts 0 and 1, stage 1 on 2 and 3: the pipeline crosses, the rings do not */
    assert_ok(sl_positions_of(&plans, &s, &positions));
    assert_int_equal(sl_shape_device(&s, 1, 0, 1, 0), 3);
    assert_near(positions->hop_latency[0], 5e6, 0);
    assert_near(positions->ring_latency[0], 1e6, 0);
    assert_near(positions->latency[SL_WORK_TENSOR], 0, 0);
    assert_near(positions->speed[0], 1, 0);
    assert_near(positions->speed[1], 0.5, 0);
    /* replica 0 on hosts 0 and 1, replica 1 on 2 and 3 */
    s.neighbors = SL_NEIGHBOR_STAGES;
    assert_ok(sl_positions_of(&plans, &s, &positions));
    assert_int_equal(sl_shape_device(&s, 1, 0, 1, 0), 5);
    assert_near(positions->hop_latency[0], 1e6, 0);
    assert_near(positions->ring_latency[0], 5e6, 0);
    assert_near(positions->ring_latency[1], 5e6, 0);
    sl_position_table_free(&plans);
    free_devices(&d);
}

/* Every shape of eight devices: no plan beats its bound, and none that of the whole space; the search finds
 * the best within 0.5%. */
static void the_best_of_all_shapes_is_found(void **state) {
    (void)state;
    const struct {
        int layers, sequences;
        double kept, parameters, memory, latency, pace, host;
    } cases[] = {{10, 24, 1e6, 1e6, 0, 1e5, 0.05, 0},
                 {8, 16, 4e6, 2e6, 60e6, 1e4, 0.2, 0},
                 {9, 32, 1e6, 4e6, 120e6, 2e6, 0.01, 0},
                 {8, 16, 4e6, 2e6, 30e6, 1e4, 0.2, 30e6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sl_model_work m;
        sl_devices d;
        sl_choices found;
        sl_shape *shape;
        size_t count;
        const sl_shape_fixed any = sl_shape_free();
        make_model(cases[i].layers, cases[i].sequences, cases[i].kept, cases[i].parameters, &m);
        make_devices(4, 2, cases[i].memory, cases[i].latency, cases[i].pace, &d);
        d.host_memory = cases[i].host;
        d.host_pace = 0.05;
        d.host_bytes_per_s = 50e9;
        for (int again = 0; again < 3 && choose(&m, &d, &any, &found) == SL_ENONE; again++) {
            sl_choices_free(&found); /* too little time on a busy machine */
            seconds *= 4;
        }
        assert_true(found.count > 0);
        assert_ok(sl_shapes_list(&m, &d, &any, &shape, &count));
        assert_int_equal(count, found.shapes);
        sl_position_table plans = {.devices = &d};
        double best = INFINITY;
        for (size_t k = 0; k < count; k++) {
            sl_problem p;
            sl_plan plan;
            sl_shape_parts parts;
            sl_shape_bound bound;
            const sl_positions *positions;
            const sl_plan_options options = {.schedule = "auto", .time_limit = 0.02, .seed = 1, .threads = 1};
            assert_int_equal(sl_shape_devices(&shape[k]), 8);
            assert_int_equal(shape[k].data * shape[k].microbatches * shape[k].division.size,
                             cases[i].sequences);
            assert_ok(sl_positions_of(&plans, &shape[k], &positions));
            assert_ok(sl_shape_problem(&m, &d, positions, &shape[k], shape[k].microbatches, &p, &parts));
            assert_ok(sl_shape_bound_of(&p, &parts, &bound));
            if (sl_plan_problem(&p, &options, &plan) == SL_OK) {
                sl_time time = plan.value + p.gather[0] + /* a makespan begins with the first F */
                               (sl_time)(parts.update * 1e9);
                assert_true(bound.time <= time);
                assert_true(found.bound <= time);
                best = fmin(best, (double)time);
            }
            sl_plan_free(&plan);
            sl_problem_free(&p);
        }
        printf("%zu shapes, best %.4f ms, found %.4f, bound %.4f\n", count, best / 1e6,
               sl_to_ms(found.choice[0].time), sl_to_ms(found.bound));
        for (int again = 0; again < 2 && (double)found.choice[0].time > 1.005 * best; again++) {
            sl_choices_free(&found);
            seconds *= 4;
            assert_ok(choose(&m, &d, &any, &found));
        }
        seconds = 2;
        assert_true((double)found.choice[0].time <= 1.005 * best);
        for (int k = 1; k < found.count; k++)
            assert_true(found.choice[k].time >= found.choice[k - 1].time &&
                        found.choice[k].memory < found.choice[k - 1].memory);
        sl_position_table_free(&plans);
        sl_free(shape);
        sl_choices_free(&found);
        free_model(&m);
        free_devices(&d);
    }
}

/* A million parameters a layer: 4 MB of weights and gradients on the device, 4 MB of the optimizer's state on
 * the host. A byte takes 1 ns on each way, and the host's processor reads and writes 1e9 bytes per second: of
 * a layer 2 ms there, (2 * 4 + 2 + 2) MB in 12 ms, 2 ms back, so 4 * 12 + 2 + 2 ms after 4 * 4 * 3 ms. */
static void an_optimizer_on_the_host_costs_what_its_moves_take(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_choices found;
    sl_shape_fixed fixed = sl_shape_free();
    fixed.again = 0;
    make_model(4, 4, 100, 1e6, &m);
    make_devices(1, 1, 20e6, 0, 0, &d);
    assert_fails(choose(&m, &d, &fixed, &found), SL_ENONE, "fits into the memory");
    sl_choices_free(&found);
    d.host_memory = 16e6;
    d.host_pace = 1;
    d.host_bytes_per_s = 1e9;
    assert_ok(choose(&m, &d, &fixed, &found));
    assert_true(sl_hosts_optimizer(found.choice[0].shape.offload));
    assert_near((double)found.choice[0].time, (48 + 52) * (double)SL_MS, 10);
    assert_near(found.choice[0].parts.update, 52e-3, 1e-9);
    assert_near(found.choice[0].memory, 16e6 + 1000, 600); /* one to four sequences of 4 layers */
    assert_near(found.choice[0].host_memory, 16e6, 1);
    sl_choices_free(&found);
    d.host_memory = 15.9e6;
    assert_fails(choose(&m, &d, &fixed, &found), SL_ENONE, "fits into the memory");
    sl_choices_free(&found);
    free_devices(&d);
    /* two pipeline ranks whose hosts have room for two layers each */
    make_devices(2, 1, 20e6, 0, 0, &d);
    d.host_memory = 8e6;
    d.host_pace = 1;
    d.host_bytes_per_s = 1e9;
    fixed.pipeline = 2;
    fixed.chunks = 1;
    fixed.offload = 1 << SL_HOST_OPTIMIZER;
    assert_ok(choose(&m, &d, &fixed, &found));
    assert_int_equal(found.choice[0].problem.layers->first[1], 2);
    assert_near(found.choice[0].parts.update, 28e-3, 1e-9);
    sl_choices_free(&found);
    d.host_memory = 7.9e6;
    assert_fails(choose(&m, &d, &fixed, &found), SL_ENONE, "memory of the devices");
    sl_choices_free(&found);
    free_model(&m);
    free_devices(&d);
}

/* Two ranks with room for one microbatch each. The first rank has it from F until W: its own three ops, and
 * F and I of the second, so 5 ms for each of 4 microbatches. With host memory, which is fast here, both ranks
 * can have more in flight; the second begins after 1 ms and has 12 ms of work. */
static void activations_move_to_the_host_where_memory_binds(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_choices found;
    sl_shape_fixed fixed = sl_shape_free();
    fixed.pipeline = 2;
    fixed.size = 1;
    fixed.again = 0;
    make_model(2, 4, 10e6, 0, &m);
    make_devices(2, 1, 12e6, 0, 0, &d);
    assert_ok(choose(&m, &d, &fixed, &found));
    assert_int_equal(found.choice[0].time, 20 * SL_MS);
    sl_choices_free(&found);
    d.host_memory = 45e6; /* 4 activations */
    d.host_pace = 0.01;
    d.host_bytes_per_s = 1e9;
    assert_ok(choose(&m, &d, &fixed, &found));
    const sl_choice *best = &found.choice[0];
    printf("with host memory: %.4f ms, bound %.4f\n", sl_to_ms(best->time), sl_to_ms(found.bound));
    assert_true(sl_hosts_activations(best->shape.offload));
    assert_true(best->time >= 13 * SL_MS && best->time <= 18 * SL_MS && found.bound <= best->time);
    assert_int_equal(best->problem.host_limit[0], 4);
    assert_int_equal(best->problem.offload[0], SL_MS / 10);
    assert_true(best->memory <= 12e6 && best->host_memory >= 10e6 && best->host_memory <= 45e6);
    sl_choices_free(&found);
    fixed.offload = 1 << SL_HOST_NOTHING;
    assert_ok(choose(&m, &d, &fixed, &found));
    assert_int_equal(found.choice[0].time, 20 * SL_MS);
    sl_choices_free(&found);
    free_model(&m);
    free_devices(&d);
}

/* Devices of speed 1 and 1/2, one replica each: a microbatch takes 4 * 3 ms or twice as long. Six of them:
 * 4 and 2 take 48 ms, 3 and 3 72 ms. */
static void a_replica_half_as_fast_gets_half_as_much(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_choices found;
    sl_shape_fixed fixed = sl_shape_free();
    fixed.data = 2;
    fixed.size = 1;
    make_model(4, 6, 100, 0, &m);
    make_devices(2, 1, 0, 0, 0, &d);
    d.device[1].speed = 0.5;
    assert_ok(choose(&m, &d, &fixed, &found));
    const sl_choice *best = &found.choice[0];
    assert_true(best->shape.uneven && best->split[0] == 4 && best->split[1] == 2);
    assert_int_equal(best->time, 48 * SL_MS);
    assert_near(best->tokens_per_s, 6000 / 0.048, 1);
    assert_true(found.bound <= 48 * SL_MS);
    sl_choices_free(&found);
    fixed.uneven = 0;
    assert_ok(choose(&m, &d, &fixed, &found));
    assert_int_equal(found.choice[0].time, 72 * SL_MS);
    assert_null(found.choice[0].split);
    sl_choices_free(&found);
    free_model(&m);
    free_devices(&d);
}

/* Two ranks with one layer each, F, I and W of 1 ms, 4 microbatches, 10 ms on the way. A message is done when
 * it arrives, and then the next one of its communicator begins. The last gradient arrives, then I and W
 * follow: 2 ms. one communicator (a pair of ranks is the whole pipeline): the first F, then 8 messages: 1 +
 * 80 + 2 one per direction (on two linear ranks, one per kind is the same): the first F, 4 activations, F and
 * I of the last one, its gradient: 1 + 40 + 2 + 10 + 2 decoupled: F, the way, 4 F and 4 I of the second rank,
 * the way: 1 + 10 + 8 + 10 + 2 */
static void messages_wait_in_their_communicators(void **state) {
    (void)state;
    const struct {
        sl_regime regime;
        int communicators, ms, chosen;
    } cases[] = {{SL_DECOUPLED, 0, 31, 0},
                 {SL_FIFO, SL_OF_PIPELINE, 83, SL_OF_PIPELINE},
                 {SL_FIFO, SL_OF_PAIR, 83, SL_OF_PAIR},
                 {SL_FIFO, SL_OF_DIRECTION, 55, SL_OF_DIRECTION},
                 {SL_FIFO, SL_OF_KIND, 55, SL_OF_KIND},
                 {SL_FIFO, -1, 55, SL_OF_DIRECTION}};
    sl_model_work m;
    sl_devices d;
    sl_shape_fixed fixed = sl_shape_free();
    fixed.pipeline = 2;
    fixed.chunks = fixed.size = 1;
    make_model(2, 4, 100, 0, &m);
    make_devices(2, 1, 0, 10e6, 0, &d);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sl_choices found;
        d.communication = (sl_devices_communication){
            .given = 1, .regime = cases[i].regime, .communicators = cases[i].communicators};
        assert_ok(choose(&m, &d, &fixed, &found));
        const sl_choice *c = &found.choice[0];
        assert_int_equal(c->time, cases[i].ms * SL_MS);
        assert_int_equal(c->problem.communication, cases[i].regime);
        assert_true(cases[i].regime != SL_FIFO || (int)c->problem.communicators == cases[i].chosen);
        assert_true(found.bound <= c->time);
        if (cases[i].communicators < 0) {
            assert_int_equal(found.with[SL_OF_PIPELINE], 83 * SL_MS);
            assert_int_equal(found.with[SL_OF_PAIR], 83 * SL_MS);
            assert_int_equal(found.with[SL_OF_DIRECTION], 55 * SL_MS);
            assert_int_equal(found.with[SL_OF_KIND], 55 * SL_MS);
        } else
            assert_int_equal(found.with[SL_OF_KIND], 0);
        sl_choices_free(&found);
    }
    /* what is fixed counts, and one communicator is enough where there is no way */
    sl_choices found;
    assert_ok(sl_shape_fix(&fixed, "communication", "fifo"));
    d.communication = (sl_devices_communication){.regime = SL_BATCHED};
    d.latency[1] = d.latency[2] = 0;
    assert_ok(choose(&m, &d, &fixed, &found));
    assert_int_equal(found.choice[0].problem.communication, SL_FIFO);
    assert_int_equal(found.choice[0].problem.communicators, SL_OF_PIPELINE);
    assert_int_equal(found.with[SL_OF_PIPELINE], found.with[SL_OF_KIND]);
    sl_choices_free(&found);
    assert_ok(sl_shape_fix(&fixed, "communicators", "pair"));
    assert_ok(choose(&m, &d, &fixed, &found));
    assert_int_equal(found.choice[0].problem.communicators, SL_OF_PAIR);
    sl_choices_free(&found);
    assert_ok(sl_shape_fix(&fixed, "communication", "batched"));
    assert_int_equal(choose(&m, &d, &fixed, &found), SL_EINVAL);
    sl_choices_free(&found);
    free_model(&m);
    free_devices(&d);
}

/* Two ranks for four layers, F, I and W of 1 ms each, 4 microbatches, and a link that takes 100 ms for a
 * message. linear, with one layer on the first rank: 1 ms of F, 4 messages, F and I of the last microbatch,
 * its gradient, I and W: 1 + 400 + 6 + 100 + 2. Each direction of the link has 4 messages, and of a wave 8. A
 * loop has two from the first rank to the second for each microbatch, and one back, with gradients the other
 * way around: 12. */
static void a_slow_link_counts_at_once(void **state) {
    (void)state;
    const struct {
        const char *placement;
        int ms, bound_ms; /* the bound: 4 ms of F, 4 ms of I, 100 ms back, and messages; or messages alone */
    } cases[] = {{"linear", 509, 508}, {"wave", 0, 800}, {"loop", 0, 1200}};
    sl_model_work m;
    sl_devices d;
    sl_choices found;
    make_model(4, 4, 100, 0, &m);
    make_devices(2, 1, 0, 0, 1e5, &d);
    sl_shape_fixed fixed = sl_shape_free();
    fixed.pipeline = 2;
    fixed.size = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sl_shape_fixed one = fixed;
        assert_ok(sl_shape_fix(&one, "placement", cases[i].placement));
        one.chunks = i ? 2 : 1;
        assert_ok(choose(&m, &d, &one, &found));
        assert_true(found.bound >= cases[i].bound_ms * (SL_MS - 1) && found.bound <= found.choice[0].time);
        printf("%s: %.4f ms, bound %.4f\n", cases[i].placement, sl_to_ms(found.choice[0].time),
               sl_to_ms(found.bound));
        assert_true(cases[i].ms == 0 || found.choice[0].time == cases[i].ms * SL_MS);
        sl_choices_free(&found);
    }
    const sl_choose_options soon = {.fixed = fixed, .time_limit = 0.01, .most = 8, .threads = 1, .seed = 1};
    assert_ok(sl_choose(&m, &d, &soon, &found));
    assert_int_equal(found.choice[0].shape.placement, SL_LINEAR);
    assert_true(found.choice[0].time <= 520 * SL_MS);
    sl_choices_free(&found);
    free_model(&m);
    free_devices(&d);
}

static sl_time planned(const sl_problem *p) {
    const sl_plan_options options = {.schedule = "auto", .time_limit = 0.1, .seed = 1, .threads = 1};
    sl_problem copy;
    sl_plan plan;
    assert_ok(sl_problem_copy(p, &copy));
    assert_ok(sl_plan_problem(&copy, &options, &plan));
    sl_time value = plan.value;
    sl_plan_free(&plan);
    sl_problem_free(&copy);
    return value;
}

/* Two replicas of two ranks on hosts of two speeds: every split, with the same cut of 6 equal layers in
 * halves. The replicas' problems are made here, not by the code that is tested. */
static void the_best_of_all_splits_is_found(void **state) {
    (void)state;
    enum { ALL = 10 };
    const double speeds[] = {0.8, 0.5, 0.31};
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
        sl_model_work m;
        sl_devices d;
        sl_choices found;
        sl_shape_fixed fixed = sl_shape_free();
        sl_time time[2][ALL], best = SL_TIME_NEVER, even = 0;
        fixed.data = fixed.pipeline = 2;
        fixed.chunks = fixed.size = 1;
        fixed.neighbors = SL_NEIGHBOR_STAGES;
        make_model(6, ALL, 1e6, 0, &m);
        make_devices(2, 2, 0, 1e5, 0.01, &d);
        d.device[2].speed = d.device[3].speed = speeds[i];
        for (int replica = 0; replica < 2; replica++)
            for (int microbatches = 1; microbatches < ALL; microbatches++) {
                sl_problem p;
                assert_ok(sl_problem_make(2, 2, microbatches, &p));
                for (int stage = 0; stage < 2; stage++)
                    for (int kind = 0; kind < SL_OP_KINDS; kind++)
                        p.time[kind][stage] =
                            llround((kind == SL_B ? 6 : 3) * (double)SL_MS / (replica ? speeds[i] : 1));
                time[replica][microbatches] = planned(&p);
                sl_problem_free(&p);
            }
        for (int first = 1; first < ALL; first++)
            best = sl_sooner(best, sl_later(time[0][first], time[1][ALL - first]));
        even = sl_later(time[0][ALL / 2], time[1][ALL / 2]);
        assert_ok(choose(&m, &d, &fixed, &found));
        const sl_choice *c = &found.choice[0];
        printf("speed %g: even %.3f ms, best split %.3f, found %.3f, bound %.3f\n", speeds[i], sl_to_ms(even),
               sl_to_ms(best), sl_to_ms(c->time), sl_to_ms(found.bound));
        assert_true((double)c->time <= 1.005 * (double)best && found.bound <= best);
        assert_true(best < even ? c->split && c->split[0] + c->split[1] == ALL : 1);
        sl_choices_free(&found);
        free_model(&m);
        free_devices(&d);
    }
}

/* A replica's positions are those of its own devices; the rings are those of all. */
static void replicas_of_one_kind_are_equal(void **state) {
    (void)state;
    sl_devices d;
    sl_replica_kinds kinds;
    make_devices(4, 2, 80, 1e5, 0.1, &d);
    d.device[6].speed = 0.5; /* of the last host */
    sl_shape s = {.division = {.tensor = 1, .context = 1, .expert = 1, .size = 1},
                  .data = 4,
                  .pipeline = 2,
                  .neighbors = SL_NEIGHBOR_STAGES};
    sl_position_table plans = {.devices = &d};
    assert_ok(sl_replica_kinds_of(&plans, &s, &kinds));
    assert_int_equal(kinds.count, 2);
    assert_int_equal(kinds.kind[0].replicas, 3);
    assert_int_equal(kinds.kind[1].replicas, 1);
    assert_int_equal(kinds.of[3], 1);
    assert_near(kinds.kind[0].positions.speed[0], 1, 0);
    assert_near(kinds.kind[1].positions.speed[0], 0.5, 0);
    assert_near(kinds.kind[1].positions.speed[1], 1, 0);
    assert_near(kinds.kind[1].positions.ring_latency[0], 1e5, 0);
    assert_near(kinds.kind[1].positions.hop_latency[0], 0, 0);
    sl_replica_kinds_free(&kinds);
    sl_position_table_free(&plans);
    free_devices(&d);
}

/* Every assignment of four devices to the positions of two replicas of two ranks, each planned; *file: that
 * of the order of the file. */
static sl_time best_of_assignments(const sl_model_work *m, const sl_devices *d, const sl_shape *s,
                                   sl_time *file) {
    const sl_choose_options options = {.seed = 1};
    sl_time best = SL_TIME_NEVER;
    for (int code = 0; code < 256; code++) {
        const int device[] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6};
        int seen = 0;
        for (int i = 0; i < 4; i++)
            seen |= 1 << device[i];
        if (seen != 15)
            continue;
        sl_devices other = *d;
        sl_position_table positions = {.devices = &other};
        const sl_shape_planning there = {
            .model = m, .devices = &other, .options = &options, .positions = &positions};
        sl_choice made;
        other.device = calloc(4, sizeof *other.device);
        for (int i = 0; i < 4; i++)
            other.device[i] = d->device[device[i]];
        assert_ok(sl_shape_plan(&there, s, 0, 0.02, 1, &made));
        best = sl_sooner(best, made.time);
        if (code == (0 | 1 << 2 | 2 << 4 | 3 << 6))
            *file = made.time;
        sl_choice_free(&made);
        sl_position_table_free(&positions);
        free(other.device);
    }
    return best;
}

/* The first and the last host are on another site, or half as fast: the order of the file is wrong for both
 * kinds of neighbors. */
static void positions_are_found_where_hosts_differ(void **state) {
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        sl_model_work m;
        sl_devices d;
        sl_choices found;
        sl_shape_fixed fixed = sl_shape_free();
        fixed.data = fixed.pipeline = 2;
        fixed.chunks = fixed.size = 1;
        fixed.zero = fixed.uneven = fixed.again = 0;
        make_model(4, 8, 1e6, 1e6, &m);
        make_devices(4, 1, 0, 1e4, 0.1, &d);
        const int site[] = {0, 1, 1, 0};
        for (int i = 0; i < 16 && !slow; i++)
            if (site[i / 4] != site[i % 4])
                d.latency[i] = 1e7;
        if (slow) {
            d.device[0].speed = d.device[3].speed = 0.5;
            for (int i = 0; i < 16; i++)
                d.pace[i] = i / 4 == i % 4 ? 0 : 0.01;
        }
        assert_ok(choose(&m, &d, &fixed, &found));
        const sl_choice *c = &found.choice[0];
        sl_time file = 0, best = best_of_assignments(&m, &d, &c->shape, &file);
        printf("all assignments: %.3f ms, that of the file %.3f, found %.3f\n", sl_to_ms(best),
               sl_to_ms(file), sl_to_ms(c->time));
        assert_true((double)c->time <= 1.005 * (double)best && found.bound <= c->time);
        assert_true(c->device && (double)c->time < 0.95 * (double)file);
        assert_int_equal(1 << c->device[0] | 1 << c->device[1] | 1 << c->device[2] | 1 << c->device[3], 15);
        sl_choices_free(&found);
        free_model(&m);
        free_devices(&d);
    }
}

/* Where all hosts and links are alike, ranks are in the order of the file. */
static void equal_hosts_keep_their_order(void **state) {
    (void)state;
    sl_devices d;
    make_devices(3, 2, 1e9, 1e4, 0.1, &d);
    assert_int_equal(sl_arrange_matters(&d), 0);
    d.latency[4] = 5; /* within a host */
    assert_int_equal(sl_arrange_matters(&d), 1);
    d.latency[4] = 0;
    d.pace[1] = 0.2;
    assert_int_equal(sl_arrange_matters(&d), 1);
    d.pace[1] = 0.1;
    d.device[5].speed = 0.9;
    assert_int_equal(sl_arrange_matters(&d), 1);
    free_devices(&d);
}

static void no_allocation_that_fails_leaks_or_lies(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_choices found;
    sl_choose_options options = {.fixed = sl_shape_free(), .time_limit = 0.05, .most = 2, .threads = 1};
    options.fixed.pipeline = 2;
    options.fixed.zero = 0;
    make_model(3, 2, 100, 0, &m);
    make_devices(2, 1, 0, 0, 0, &d);
    sl_status status = SL_ENOMEM;
    for (long n = 0; n < 100000000 && status != SL_OK; n = n < 300 ? n + 1 : n + n / 3) {
        sl_alloc_fail_at(n);
        status = sl_choose(&m, &d, &options, &found);
        sl_alloc_fail_at(-1);
        assert_true(status == SL_OK || status == SL_ENOMEM);
        sl_choices_free(&found);
    }
    assert_int_equal(status, SL_OK);
    d.device[1].speed = 0.5; /* positions matter */
    assert_ok(sl_choose(&m, &d, &options, &found));
    sl_position_table positions = {.devices = &d};
    const sl_shape_planning planning = {
        .model = &m, .devices = &d, .options = &options, .positions = &positions};
    status = SL_ENOMEM;
    for (long n = 0; status != SL_OK; n = n < 300 ? n + 1 : n + n / 3) {
        sl_alloc_fail_at(n);
        status = sl_arrange(&planning, 0, 1, &found.choice[0]);
        sl_alloc_fail_at(-1);
        assert_true(status == SL_OK || status == SL_ENOMEM);
    }
    sl_choices_free(&found);
    sl_position_table_free(&positions);
    free_model(&m);
    free_devices(&d);
}

/* Of 8 sequences: microbatches of 1, 2, 4 and 8, in every division into ranks. */
static void every_size_of_a_microbatch_is_searched(void **state) {
    (void)state;
    sl_model_work m;
    sl_devices d;
    sl_shape_fixed any = sl_shape_free();
    sl_shape *shape;
    size_t count;
    unsigned sizes[3] = {0}; /* by replicas */
    make_model(4, 8, 100, 0, &m);
    make_devices(2, 1, 0, 0, 0, &d);
    assert_ok(sl_shapes_list(&m, &d, &any, &shape, &count));
    for (size_t i = 0; i < count; i++)
        sizes[shape[i].data] |= 1u << shape[i].division.size;
    assert_int_equal(sizes[1], 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8);
    assert_int_equal(sizes[2], 1 << 1 | 1 << 2 | 1 << 4);
    sl_free(shape);
    free_model(&m);
    free_devices(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_of_a_microbatch_is_searched),
        cmocka_unit_test(free_sums_make_replicas_best),
        cmocka_unit_test(every_size_of_a_microbatch_is_there),
        cmocka_unit_test(what_does_not_fit_is_divided),
        cmocka_unit_test(sums_over_replicas_count),
        cmocka_unit_test(context_ranks_of_one_replica_sum_their_gradients),
        cmocka_unit_test(a_tied_head_on_the_rank_of_the_embedding_takes_no_memory),
        cmocka_unit_test(positions_know_what_crosses_a_site),
        cmocka_unit_test(the_best_of_all_shapes_is_found),
        cmocka_unit_test(an_optimizer_on_the_host_costs_what_its_moves_take),
        cmocka_unit_test(activations_move_to_the_host_where_memory_binds),
        cmocka_unit_test(a_replica_half_as_fast_gets_half_as_much),
        cmocka_unit_test(messages_wait_in_their_communicators),
        cmocka_unit_test(a_slow_link_counts_at_once),
        cmocka_unit_test(the_best_of_all_splits_is_found),
        cmocka_unit_test(replicas_of_one_kind_are_equal),
        cmocka_unit_test(positions_are_found_where_hosts_differ),
        cmocka_unit_test(equal_hosts_keep_their_order),
        cmocka_unit_test(no_allocation_that_fails_leaks_or_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
