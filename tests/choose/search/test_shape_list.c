/* Which shapes there are, and what their problems have: sums over replicas, tied heads. */
#include "choose/search/small_cluster.h"

#include "choose/search/positions.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_of_a_microbatch_is_there),
        cmocka_unit_test(every_size_of_a_microbatch_is_searched),
        cmocka_unit_test(sums_over_replicas_count),
        cmocka_unit_test(context_ranks_of_one_replica_sum_their_gradients),
        cmocka_unit_test(a_tied_head_on_the_rank_of_the_embedding_takes_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
