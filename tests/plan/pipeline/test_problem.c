/* The problem file: defaults, units, every mistake with file, line and key, and a round trip exact to the ns.
 */
#include "check.h"

#include "base/memory.h"
#include "plan/pipeline/layers.h"
#include "plan/pipeline/problem.h"

#define TIMES "  times_ms: {F: 10, I: 10, W: 10}\n"
#define SHAPE "pipeline:\n  ranks: 3\n  microbatches: 4\n" /* lines 1 to 3 */

static sl_status read_text(const char *text, sl_problem *problem) {
    sl_document document;
    *problem = (sl_problem){0};
    sl_status status = sl_document_parse("p.yaml", text, &document);
    if (status == SL_OK)
        status = sl_problem_read(&document, problem);
    sl_document_close(&document);
    return status;
}

static void what_is_absent_has_the_documented_defaults(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text(SHAPE "  times_ms: {F: 1.5, I: [1, 2, 3], W: 0.000001}\n", &p));
    assert_true(p.ranks == 3 && p.stages == 3 && p.microbatches == 4 && p.placement == SL_LINEAR);
    assert_true(p.communication == SL_DECOUPLED && p.queue == 1 && p.limit == NULL);
    for (int s = 0; s < 3; s++) {
        assert_int_equal(p.time[SL_F][s], 1500000);
        assert_int_equal(p.time[SL_I][s], (s + 1) * SL_MS);
        assert_int_equal(p.time[SL_W][s], 1);
        assert_int_equal(p.time[SL_B][s], (s + 1) * SL_MS + 1);
        assert_true(p.delta[SL_F][s] == 1 && p.delta[SL_I][s] == 0 && p.delta[SL_W][s] == -1 &&
                    p.delta[SL_B][s] == -1);
        assert_int_equal(sl_problem_rank(&p, s), s);
    }
    for (int i = 0; i < 9; i++)
        assert_true(p.link[i].latency == 0 && p.link[i].transfer == 0);
    sl_problem_free(&p);
}

static void memory_may_be_given_per_stage_and_per_rank(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text(
        SHAPE TIMES "  memory: {delta: {F: [4, 5, 6], I: -1.5, W: [-2.5, -3.5, -4.5]}, limit: [7, 8, 9]}\n",
        &p));
    for (int s = 0; s < 3; s++) {
        assert_true(p.delta[SL_F][s] == 4 + s && p.delta[SL_I][s] == -1.5 && p.delta[SL_W][s] == -2.5 - s);
        assert_true(p.delta[SL_B][s] == -4.0 - s); /* I + W */
        assert_true(p.limit[s] == 7 + s);
    }
    sl_problem_free(&p);
    assert_ok(read_text(SHAPE TIMES "  memory: {delta: {B: -2}, limit: 7}\n", &p));
    assert_true(p.delta[SL_B][1] == -2 && p.delta[SL_W][1] == -1 && p.limit[2] == 7);
    sl_problem_free(&p);
}

/* What lies there all the time is part of the file's limit, and of no op's business. */
static void fixed_memory_comes_off_the_limit(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text(SHAPE TIMES "  memory: {limit: [7, 8, 9], fixed: [2, 0, 9]}\n", &p));
    assert_true(p.limit[0] == 5 && p.limit[1] == 8 && p.limit[2] == 0);
    assert_true(sl_problem_fixed(&p, 0) == 2 && sl_problem_fixed(&p, 2) == 9);
    sl_problem_free(&p);
    assert_ok(read_text(SHAPE TIMES "  memory: {fixed: 3}\n", &p));
    assert_true(p.limit == NULL && p.fixed[1] == 3);
    sl_problem_free(&p);
    assert_ok(read_text(SHAPE TIMES, &p));
    assert_true(p.fixed == NULL && sl_problem_fixed(&p, 1) == 0);
    sl_problem_free(&p);
}

/* 25 MB over 10 Gb/s: 25e6 * 8 / 10e9 s = 20 ms. */
static void links_replace_the_default_and_take_decimal_units(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text(SHAPE TIMES "  links:\n"
                                    "    default: {latency_ms: 0.5, bandwidth_gbps: 10, message_mb: 25}\n"
                                    "    list:\n"
                                    "      - {between: [0, 1], latency_ms: 20}\n"
                                    "      - {between: [2, 1], transfer_ms: 3, one_way: true}\n"
                                    "  communication: inorder\n  queue: 2\n",
                        &p));
    assert_true(p.communication == SL_INORDER && p.queue == 2);
    const sl_link *link = p.link;
    assert_true(link[0 * 3 + 2].latency == SL_MS / 2 && link[0 * 3 + 2].transfer == 20 * SL_MS);
    assert_true(link[0 * 3 + 1].latency == 20 * SL_MS &&
                link[0 * 3 + 1].transfer == 0); /* absolute: nothing is left */
    assert_true(link[1 * 3 + 0].latency == 20 * SL_MS && link[1 * 3 + 0].transfer == 0);
    assert_true(link[2 * 3 + 1].latency == 0 && link[2 * 3 + 1].transfer == 3 * SL_MS);
    assert_true(link[1 * 3 + 2].latency == SL_MS / 2 && link[1 * 3 + 2].transfer == 20 * SL_MS); /* one way */
    sl_problem_free(&p);
}

/* Keys are read where they ask for nothing. */
static void neutral_values_change_nothing(void **state) {
    (void)state;
    sl_problem p, q;
    assert_ok(read_text(SHAPE TIMES, &p));
    assert_ok(read_text(
        SHAPE TIMES "  memory: {host_limit: 0}\n  links: {shared: [{name: wan, links: [[0, 1], [1, 2]]}]}\n"
                    "  data_parallel: {reduce_ms: 0, gather_ms: 0}\n  recompute: false\n  parts: 1\n",
        &q));
    assert_null(q.host_limit);
    assert_memory_equal(p.link, q.link, 9 * sizeof *p.link);
    assert_memory_equal(p.time[SL_F], q.time[SL_F], 3 * sizeof(sl_time));
    sl_problem_free(&p);
    sl_problem_free(&q);
}

static void host_memory_is_one_number_or_one_per_rank_and_its_time_one_per_stage(void **state) {
    (void)state;
    sl_problem p, q;
    assert_ok(
        read_text(SHAPE TIMES "  memory: {limit: 4, host_limit: [1, 0, 3], offload_ms: [0.5, 1, 2]}\n", &p));
    assert_true(sl_problem_offloads(&p));
    assert_true(p.host_limit[0] == 1 && p.host_limit[1] == 0 && p.host_limit[2] == 3);
    assert_true(p.offload[0] == SL_MS / 2 && p.offload[1] == SL_MS && p.offload[2] == 2 * SL_MS);
    assert_true(sl_problem_room(&p, 0) == 5 && sl_problem_room(&p, 1) == 4 && sl_problem_room(&p, 2) == 7);
    assert_ok(sl_problem_copy(&p, &q));
    assert_memory_equal(p.host_limit, q.host_limit, 3 * sizeof *p.host_limit);
    assert_memory_equal(p.offload, q.offload, 3 * sizeof *p.offload);
    sl_problem_free(&q);
    sl_problem_free(&p);
    assert_ok(read_text(SHAPE TIMES "  memory: {limit: 4, host_limit: 2, offload_ms: 3}\n", &p));
    assert_true(p.host_limit[0] == 2 && p.host_limit[2] == 2 && p.offload[1] == 3 * SL_MS);
    sl_problem_free(&p);
    assert_ok(read_text(SHAPE TIMES "  memory: {host_limit: 2}\n", &p)); /* nothing need ever move */
    assert_false(sl_problem_offloads(&p));
    sl_problem_free(&p);
}

static void every_mistake_is_named_with_its_place(void **state) {
    (void)state;
    static const struct {
        const char *text, *place, *says;
    } cases[] = {
        {"other: 1\n", "p.yaml", "'other'"},
        {SHAPE TIMES "  parts: 0\n", "p.yaml:5: 'parts'", "from 1 to 64"},
        {SHAPE TIMES "  recompute: 2\n", "p.yaml:5: 'recompute'", "true, false or a list"},
        {SHAPE TIMES "  recompute: {}\n", "p.yaml:5: 'recompute'", "true, false or a list"},
        {SHAPE TIMES "  recompute: [false, true]\n", "p.yaml:5: 'recompute'", "one per stage, got 2"},
        {SHAPE TIMES "  data_parallel: {reduce_ms: -2}\n", "p.yaml:5: 'reduce_ms'", "at least 0"},
        {SHAPE TIMES "  data_parallel: {reduce_ms: 2, replicas: 2}\n", "p.yaml:5: 'data_parallel'",
         "one of them"},
        {SHAPE TIMES "  data_parallel: {replicas: 2}\n", "p.yaml:5: 'data_parallel'",
         "volume_mb and bandwidth_gbps"},
        {SHAPE TIMES "  data_parallel: {volume_mb: 2}\n", "p.yaml:5: 'data_parallel'", "lacks 'replicas'"},
        {SHAPE TIMES "  data_parallel: {replicas: 2, volume_mb: 1, bandwidth_gbps: [1, 2, 3]}\n",
         "p.yaml:5: 'bandwidth_gbps'", "one per link of the ring, got 3"},
        {SHAPE TIMES "  data_parallel: {replicas: 2, volume_mb: 1e9, bandwidth_gbps: 1e-5}\n",
         "p.yaml:5: 'data_parallel'", "at most 1e+06"},
        {SHAPE TIMES "  memory: {limit: 7, fixed: [1, 7.5, 1]}\n", "p.yaml:5: 'fixed'",
         "takes 7.5 on rank 1, over its limit of 7"},
        {SHAPE TIMES "  memory: {fixed: -1}\n", "p.yaml:5: 'fixed'", "at least 0"},
        {SHAPE TIMES "  memory: {delta: {I_start: -1}}\n", "p.yaml:5: 'I_start'", "at least 0"},
        {SHAPE TIMES "  memory: {delta: {I_start: [1, 2]}}\n", "p.yaml:5: 'I_start'", "one per stage, got 2"},
        {SHAPE TIMES "  memory: {host_limit: 1.5}\n", "p.yaml:5: 'host_limit'", "whole number"},
        {SHAPE TIMES "  memory: {host_limit: -1}\n", "p.yaml:5: 'host_limit'", "at least 0"},
        {SHAPE TIMES "  memory: {host_limit: [1, 2]}\n", "p.yaml:5: 'host_limit'", "one per rank, got 2"},
        {SHAPE TIMES "  memory: {host_limit: .nan}\n", "p.yaml:5: 'host_limit'", "number"},
        {SHAPE TIMES "  memory: {offload_ms: -1}\n", "p.yaml:5: 'offload_ms'", "at least 0"},
        {SHAPE TIMES "  memory: {offload_ms: 2e6}\n", "p.yaml:5: 'offload_ms'", "at most"},
        {SHAPE TIMES "  memory: {offload_ms: [1, 2]}\n", "p.yaml:5: 'offload_ms'", "one per stage, got 2"},
        {SHAPE TIMES "  links: {shared: [{name: wan}]}\n", "p.yaml:5: 'shared'", "list of {name, links}"},
        {SHAPE TIMES "  links: {shared: [{name: wan, links: [[0, 1]], x: 1}]}\n", "p.yaml:5: 'x'",
         "not a known key"},
        {SHAPE TIMES "  links: {shared: [{name: a, links: [[0, 1]]}, {name: b, links: [[1, 0]]}]}\n",
         "p.yaml:5: 'links'", "names link 1-0 twice"},
        {SHAPE TIMES "  links: {percentile: 100}\n", "p.yaml:5: 'percentile'", "at most"},
        {SHAPE TIMES "  layers: {count: 4, times_ms: {F: 1, I: 1, W: 1}}\n", "p.yaml:1: 'pipeline'",
         "one of them"},
        {SHAPE "  layers: {count: 2, times_ms: {F: 1, I: 1, W: 1}}\n", "p.yaml:4: 'count'",
         "at least the number of stages, 3"},
        {SHAPE "  layers: {count: 4, times_ms: {F: [1, 2], I: 1, W: 1}}\n", "p.yaml:4: 'F'",
         "one per layer, got 2"},
        {SHAPE "  layers: {count: 4, times_ms: {F: 1, I: 1, W: 1, FB: 1}}\n", "p.yaml:4: 'FB'",
         "not available for layers"},
        {SHAPE "  layers: {count: 4, times_ms: {F: 1, I: 1, W: 1}}\n  memory: {delta: {F: 1}}\n",
         "p.yaml:5: 'delta'", "belongs into 'layers'"},
        {"pipeline: 3\n", "p.yaml:1: 'pipeline'", "map"},
        {"pipeline:\n  microbatches: 4\n" TIMES, "p.yaml", "'ranks' is missing"},
        {"pipeline:\n  ranks: 3\n" TIMES, "p.yaml", "'microbatches' is missing"},
        {SHAPE, "p.yaml", "lacks 'times_ms'"},
        {SHAPE TIMES "  colour: 3\n", "p.yaml:5: 'colour'", "not a known key"},
        {"pipeline:\n  ranks: 0\n  microbatches: 4\n" TIMES, "p.yaml:2: 'ranks'", "from 1 to 1024"},
        {"pipeline:\n  ranks: 1025\n  microbatches: 4\n" TIMES, "p.yaml:2: 'ranks'", "from 1 to 1024"},
        {"pipeline:\n  ranks: 2.5\n  microbatches: 4\n" TIMES, "p.yaml:2: 'ranks'", "whole number"},
        {"pipeline:\n  ranks: 3\n  microbatches: 0\n" TIMES, "p.yaml:3: 'microbatches'", "from 1 to 65536"},
        {"pipeline:\n  ranks: 3\n  microbatches: 99999999999999999999\n" TIMES, "p.yaml:3: 'microbatches'",
         "from 1"},
        {"pipeline:\n  ranks: 1024\n  microbatches: 65536\n" TIMES, "p.yaml:3: 'microbatches'",
         "at most 3900000"},
        {SHAPE TIMES "  stages: 4\n", "p.yaml:5: 'stages'",
         "must be as many as ranks (3) with placement linear, got 4"},
        {SHAPE TIMES "  placement: loops\n", "p.yaml:5: 'placement'", "linear"},
        {SHAPE TIMES "  placement: loop\n  stages: 4\n", "p.yaml:6: 'stages'", "multiple of ranks (3)"},
        {SHAPE TIMES "  placement: wave\n  stages: 0\n", "p.yaml:6: 'stages'", "multiple of ranks (3)"},
        {SHAPE TIMES "  placement: bidirectional\n  stages: 3\n", "p.yaml:6: 'stages'",
         "twice the ranks (6)"},
        {SHAPE TIMES "  communication: both\n", "p.yaml:5: 'communication'", "decoupled, inorder, batched"},
        {SHAPE TIMES "  queue: 0\n", "p.yaml:5: 'queue'", "from 1"},
        {SHAPE "  times_ms: 10\n", "p.yaml:4: 'times_ms'", "must be a map"},
        {SHAPE "  times_ms: {F: 10, I: 10}\n", "p.yaml:4: 'times_ms'", "lacks 'W'"},
        {SHAPE "  times_ms: {F: 10, I: 10, W: 10, X: 1}\n", "p.yaml:4: 'X'", "not a known key of 'times_ms'"},
        {SHAPE "  times_ms: {F: -1, I: 10, W: 10}\n", "p.yaml:4: 'F'", "at least 0, got -1"},
        {SHAPE "  times_ms: {F: .nan, I: 10, W: 10}\n", "p.yaml:4: 'F'", "must be a number"},
        {SHAPE "  times_ms: {F: nan, I: 10, W: 10}\n", "p.yaml:4: 'F'", "must be a number"},
        {SHAPE "  times_ms: {F: inf, I: 10, W: 10}\n", "p.yaml:4: 'F'", "must be a number"},
        {SHAPE "  times_ms: {F: '10', I: 10, W: 10}\n", "p.yaml:4: 'F'", "must be a number"},
        {SHAPE "  times_ms: {F: 1e7, I: 10, W: 10}\n", "p.yaml:4: 'F'", "at most 1e+06"},
        {SHAPE "  times_ms: {F: 1e400, I: 10, W: 10}\n", "p.yaml:4: 'F'", "must be a number"},
        {SHAPE "  times_ms: {F: 10, I: 10, W: 10, B: 3e6}\n", "p.yaml:4: 'B'", "at most 2e+06"},
        {SHAPE "  times_ms:\n    F: 10\n    I: [1, 2]\n    W: 10\n", "p.yaml:6: 'I'",
         "list of 3, one per stage, got 2"},
        {SHAPE "  times_ms:\n    F: 10\n    I: [1, 2, 3, 4]\n    W: 10\n", "p.yaml:6: 'I'",
         "one per stage, got 4"},
        {SHAPE "  times_ms:\n    F: 10\n    I: [1, x, 3]\n    W: 10\n", "p.yaml:6: 'I'",
         "must be a number, got 'x'"},
        {SHAPE "  times_ms:\n    F: 10\n    I: [1, [2], 3]\n    W: 10\n", "p.yaml:6: 'I'",
         "must be a number"},
        {SHAPE "  times_ms:\n    F: 10\n    I: {a: 1}\n    W: 10\n", "p.yaml:6: 'I'",
         "must be a number or a list of 3"},
        {SHAPE TIMES "  memory: {limit: -1}\n", "p.yaml:5: 'limit'", "at least 0"},
        {SHAPE TIMES "  memory: {limit: [1, 2]}\n", "p.yaml:5: 'limit'", "one per rank, got 2"},
        {SHAPE TIMES "  memory: {limits: 1}\n", "p.yaml:5: 'limits'", "not a known key"},
        {SHAPE TIMES "  memory: {delta: {F: 1e16}}\n", "p.yaml:5: 'F'", "at most 1e+15"},
        {SHAPE TIMES "  memory: {delta: {G: 1}}\n", "p.yaml:5: 'G'", "not a known key of 'delta'"},
        {SHAPE TIMES "  memory: {delta: 4}\n", "p.yaml:5: 'delta'", "must be a map"},
        {SHAPE TIMES "  links: 4\n", "p.yaml:5: 'links'", "must be a map"},
        {SHAPE TIMES "  links: {defaults: {}}\n", "p.yaml:5: 'defaults'", "not a known key"},
        {SHAPE TIMES "  links: {default: {latency_ms: -1}}\n", "p.yaml:5: 'latency_ms'", "at least 0"},
        {SHAPE TIMES "  links: {default: {one_way: true}}\n", "p.yaml:5: 'default'", "belong into the list"},
        {SHAPE TIMES "  links: {default: {between: [0, 1]}}\n", "p.yaml:5: 'default'",
         "belong into the list"},
        {SHAPE TIMES "  links: {list: {}}\n", "p.yaml:5: 'list'", "must be a list"},
        {SHAPE TIMES "  links:\n    list:\n      - 4\n", "p.yaml:7:", "must be a map"},
        {SHAPE TIMES "  links:\n    list:\n      - {latency_ms: 4}\n", "p.yaml:7:", "lacks 'between'"},
        {SHAPE TIMES "  links:\n    list:\n      - {between: [0, 3]}\n", "p.yaml:7: 'between'",
         "ranks from 0 to 2"},
        {SHAPE TIMES "  links:\n    list:\n      - {between: [-1, 0]}\n", "p.yaml:7: 'between'",
         "ranks from 0 to 2"},
        {SHAPE TIMES "  links:\n    list:\n      - {between: [0, 0.5]}\n", "p.yaml:7: 'between'",
         "ranks from 0 to 2"},
        {SHAPE TIMES "  links:\n    list:\n      - {between: [1, 1]}\n", "p.yaml:7: 'between'",
         "two different ranks"},
        {SHAPE TIMES "  links:\n    list:\n      - {between: [0, 1, 2]}\n", "p.yaml:7: 'between'",
         "two ranks"},
        {SHAPE TIMES "  links:\n    list:\n      - {between: 1}\n", "p.yaml:7: 'between'", "two ranks"},
        {SHAPE TIMES "  links:\n    list:\n      - {between: [0, 1], delay: 1}\n", "p.yaml:7: 'delay'",
         "not a known key"},
        {SHAPE TIMES "  links: {default: {bandwidth_gbps: 1}}\n", "p.yaml:5: 'default'",
         "together with message_mb"},
        {SHAPE TIMES "  links: {default: {message_mb: 1}}\n", "p.yaml:5: 'default'",
         "bandwidth_gbps above 0"},
        {SHAPE TIMES "  links: {default: {bandwidth_gbps: 0, message_mb: 1}}\n", "p.yaml:5: 'default'",
         "above 0"},
        {SHAPE TIMES "  links: {default: {bandwidth_gbps: 1e-9, message_mb: 1e9}}\n", "p.yaml:5: 'default'",
         "at most 1e+06"},
        {SHAPE TIMES "  links: {default: {transfer_ms: 1, bandwidth_gbps: 1, message_mb: 1}}\n",
         "p.yaml:5: 'default'", "one of them"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_problem p;
        if (read_text(cases[i].text, &p) != SL_EINVAL)
            fail_msg("accepted: %s", cases[i].text);
        if (!strstr(sl_error_text(), cases[i].place) || !strstr(sl_error_text(), cases[i].says))
            fail_msg("'%s' does not say '%s' and '%s'", sl_error_text(), cases[i].place, cases[i].says);
        assert_null(strchr(sl_error_text(), '\n'));
        sl_problem_free(&p);
    }
}

static unsigned random_state;

static int64_t draw(int64_t n) {
    random_state = random_state * 1664525u + 1013904223u;
    uint64_t high = random_state;
    random_state = random_state * 1664525u + 1013904223u;
    return (int64_t)((high << 22 ^ random_state >> 8) % (uint64_t)n);
}

static double draw_real(void) {
    return ((double)draw(INT64_C(1) << 53) - 4e15) / (double)(1 + draw(1000000000));
}

static void draw_problem(sl_problem *p) {
    static const sl_time scale[] = {2, 1000, SL_MS, 1000 * SL_MS, (sl_time)SL_MAX_OP_MS * SL_MS + 1};
    int ranks = 1 + (int)draw(6);
    assert_ok(sl_problem_make(ranks, ranks, 1 + (int)draw(100), p));
    p->communication = draw(2) ? SL_INORDER : SL_DECOUPLED;
    p->queue = 1 + (int)draw(9);
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        for (int s = 0; s < ranks; s++) {
            p->time[kind][s] = draw(scale[draw(5)]) * (kind == SL_B ? 2 : 1);
            p->delta[kind][s] = draw_real() / 10;
        }
    for (int s = 0; s < ranks; s++)
        p->start[s] = p->early[s] = draw(2) ? (double)draw(1000000) / 7 : 0;
    if (draw(2)) {
        assert_ok(sl_alloc(&p->fixed, (size_t)ranks, sizeof *p->fixed));
        for (int r = 0; r < ranks; r++)
            p->fixed[r] = (double)draw(1000);
    }
    if (draw(2)) {
        assert_ok(sl_alloc(&p->limit, (size_t)ranks, sizeof *p->limit));
        for (int r = 0; r < ranks; r++)
            p->limit[r] = (double)draw(1000000) / 4; /* adds up with `fixed` exactly */
    }
    for (int i = 0; i < ranks * ranks; i++)
        if (i / ranks != i % ranks)
            p->link[i] = (sl_link){.latency = draw(2) ? 0 : draw(scale[draw(5)]),
                                   .transfer = draw(2) ? 0 : draw(scale[draw(5)])};
}

/* Wires may be numbered otherwise: the same links must share. */
static int shares(const sl_problem *p, int i, int k) {
    return p->wire ? p->wire[i] == p->wire[k] : i == k;
}

static void assert_same_layers(const sl_problem *p, const sl_problem *q) {
    const sl_layers *a = p->layers, *b = q->layers;
    assert_true(!a == !b);
    if (!a)
        return;
    size_t count = (size_t)a->count;
    assert_int_equal(a->count, b->count);
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        assert_memory_equal(a->time[kind], b->time[kind], count * sizeof(sl_time));
        for (int i = 0; i < a->count; i++)
            assert_true(a->delta[kind][i] == b->delta[kind][i]);
    }
    for (int i = 0; i < a->count; i++)
        assert_true(a->weights[i] == b->weights[i]);
    for (int r = 0; r < p->ranks; r++)
        assert_true(a->speed[r] == b->speed[r] && (!a->memory || a->memory[r] == b->memory[r]));
    assert_memory_equal(a->first, b->first, ((size_t)p->stages + 1) * sizeof(int));
}

static void assert_same(const sl_problem *a, const sl_problem *b) {
    size_t times = (size_t)a->stages * sizeof(sl_time);
    assert_true(a->parts == b->parts && a->percentile == b->percentile);
    assert_memory_equal(a->saved, b->saved, times);
    assert_memory_equal(a->gather, b->gather, times);
    assert_memory_equal(a->reduce, b->reduce, times);
    assert_memory_equal(a->recompute, b->recompute, (size_t)a->stages);
    for (int s = 0; s < a->stages; s++)
        assert_true(a->early[s] == b->early[s] && a->start[s] == b->start[s]);
    assert_true(!a->fixed == !b->fixed);
    for (int r = 0; a->fixed && r < a->ranks; r++)
        assert_true(a->fixed[r] == b->fixed[r]);
    for (int i = 0; i < a->ranks * a->ranks; i++)
        for (int k = 0; k < i; k++)
            assert_int_equal(shares(a, i, k), shares(b, i, k));
    assert_same_layers(a, b);
    assert_true(a->ranks == b->ranks && a->stages == b->stages && a->microbatches == b->microbatches);
    assert_true(a->placement == b->placement && a->communication == b->communication && a->queue == b->queue);
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        assert_memory_equal(a->time[kind], b->time[kind], (size_t)a->stages * sizeof(sl_time));
        for (int s = 0; s < a->stages; s++)
            assert_true(a->delta[kind][s] == b->delta[kind][s]);
    }
    assert_true(!a->limit == !b->limit);
    for (int r = 0; a->limit && r < a->ranks; r++)
        assert_true(a->limit[r] == b->limit[r]);
    assert_memory_equal(a->link, b->link, (size_t)a->ranks * (size_t)a->ranks * sizeof(sl_link));
}

static char *write_text(const sl_problem *p) {
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_ok(sl_problem_write(p, out));
    fclose(out);
    return text;
}

static void what_is_written_reads_back_to_the_same_problem(void **state) {
    (void)state;
    const char *given = getenv("SL_SEED");
    random_state = given ? (unsigned)atoi(given) : 1926u;
    printf("seed %u\n", random_state);
    for (int round = 0; round < 500; round++) {
        sl_problem p, q, copy;
        draw_problem(&p);
        char *text = write_text(&p);
        assert_ok(read_text(text, &q));
        assert_same(&p, &q);
        assert_ok(sl_problem_copy(&p, &copy));
        assert_same(&p, &copy);
        free(text);
        sl_problem_free(&p);
        sl_problem_free(&q);
        sl_problem_free(&copy);
    }
}

/* ---- the keys of placements, wires, jitter, collectives, recomputation and layers, by hand ---- */

static void every_placement_has_its_stages(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int stages, rank[6], next[6];
    } cases[] = {
        {"linear", 3, {0, 1, 2}, {1, 2, -1}},
        {"loop", 6, {0, 1, 2, 0, 1, 2}, {1, 2, 3, 4, 5, -1}},
        {"wave", 6, {0, 1, 2, 2, 1, 0}, {1, 2, 3, 4, 5, -1}},
        {"bidirectional", 6, {0, 1, 2, 2, 1, 0}, {1, 2, -1, 4, 5, -1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        sl_problem p;
        snprintf(text, sizeof text, SHAPE TIMES "  placement: %s\n", cases[i].text);
        assert_ok(read_text(text, &p));
        assert_int_equal(p.stages, cases[i].stages);
        assert_string_equal(sl_placement_name(p.placement), cases[i].text);
        for (int s = 0; s < p.stages; s++) {
            assert_int_equal(sl_problem_rank(&p, s), cases[i].rank[s]);
            assert_int_equal(sl_problem_next(&p, s), cases[i].next[s]);
            if (cases[i].next[s] >= 0)
                assert_int_equal(sl_problem_previous(&p, cases[i].next[s]), s);
        }
        sl_problem_free(&p);
    }
}

/* Five microbatches: 0, 2, 4 down, 1, 3 up. */
static void two_pipelines_divide_the_microbatches(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text(
        "pipeline: {ranks: 2, microbatches: 5, placement: bidirectional, times_ms: {F: 1, I: 1, W: 1}}", &p));
    for (int m = 0; m < 5; m++)
        for (int s = 0; s < 4; s++)
            assert_int_equal(sl_problem_runs(&p, s, m), (s >= 2) == (m % 2 == 1));
    assert_true(sl_problem_microbatches(&p, 0) == 3 && sl_problem_microbatches(&p, 3) == 2);
    assert_int_equal(sl_problem_rank_ops(&p, 1, 3), 15);
    sl_problem_free(&p);
}

static void shared_links_are_one_wire_per_direction(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text(
        SHAPE TIMES "  links: {shared: [{name: wan, links: [[0, 1], [2, 1]]}, {name: x, links: [[0, 2]]}]}\n",
        &p));
    assert_int_equal(p.wire[0 * 3 + 1], p.wire[2 * 3 + 1]);
    assert_int_equal(p.wire[1 * 3 + 0], p.wire[1 * 3 + 2]);
    static const int apart[][2] = {{1, 3}, {1, 2}, {1, 6}, {3, 2}, {2, 6}, {3, 6}};
    for (size_t i = 0; i < sizeof apart / sizeof apart[0]; i++)
        assert_int_not_equal(p.wire[apart[i][0]], p.wire[apart[i][1]]);
    sl_problem_free(&p);
}

/* P(delay <= x) = 1 - exp(-x / mean), so the p-th percentile is -mean ln(1 - p / 100): ln 10 = 2.302585 for
 * 90, ln 2 = 0.693147 for 50, nothing for 0. */
static void plans_count_on_the_percentile_of_jitter(void **state) {
    (void)state;
    static const struct {
        const char *links;
        sl_time latency, jitter;
    } cases[] = {
        {"{default: {jitter_ms: 1}}", 2302585, SL_MS},
        {"{percentile: 90, default: {jitter_ms: 1, latency_ms: 20}}", 22302585, SL_MS},
        {"{percentile: 50, default: {jitter_ms: 10, latency_ms: 20}}", 26931472, 10 * SL_MS},
        {"{percentile: 0, default: {jitter_ms: 10, latency_ms: 20}}", 20 * SL_MS, 10 * SL_MS},
        {"{percentile: 99, list: [{between: [0, 1], jitter_ms: 2}]}", 9210340, 2 * SL_MS}, /* 2 ln 100 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        sl_problem p;
        snprintf(text, sizeof text, SHAPE TIMES "  links: %s\n", cases[i].links);
        assert_ok(read_text(text, &p));
        assert_int_equal(p.link[1].latency, cases[i].latency);
        assert_int_equal(p.link[1].jitter, cases[i].jitter);
        sl_problem_free(&p);
    }
}

/* 2(n - 1)(alpha + V / (n beta)): n = 4, alpha = 0.5 ms, V = 100 MB = 800 Mbit at 10 Gbit/s: 6 * (0.5 + 20) =
 * 123 ms. The slowest link of the ring counts: with one of 5 Gbit/s 6 * (0.5 + 40) = 243, with one of 2 ms
 * and 10 Gbit/s 6 * 22 = 132. ZeRO-1 puts half of it in front. One replica has nobody to talk to. */
static void a_ring_takes_its_steps_on_its_slowest_link(void **state) {
    (void)state;
    static const struct {
        const char *data;
        double reduce, gather;
    } cases[] = {
        {"{replicas: 4, volume_mb: 100, latency_ms: 0.5, bandwidth_gbps: 10}", 123, 0},
        {"{replicas: 4, volume_mb: 100, latency_ms: 0.5, bandwidth_gbps: [10, 5, 10, 10]}", 243, 0},
        {"{replicas: 4, volume_mb: 100, latency_ms: [0.5, 0.5, 0.5, 2], bandwidth_gbps: 10}", 132, 0},
        {"{replicas: 4, volume_mb: 100, latency_ms: 0.5, bandwidth_gbps: 10, zero: 1}", 61.5, 61.5},
        {"{replicas: 2, volume_mb: [100, 50, 0], bandwidth_gbps: 10}", 80, 0}, /* 2 * 40 */
        {"{replicas: 1, volume_mb: 100, latency_ms: 0.5, bandwidth_gbps: 10, zero: 1}", 0, 0},
        {"{reduce_ms: 7, gather_ms: [3, 4, 5]}", 7, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        sl_problem p;
        snprintf(text, sizeof text, SHAPE TIMES "  data_parallel: %s\n", cases[i].data);
        assert_ok(read_text(text, &p));
        assert_near(sl_to_ms(p.reduce[0]), cases[i].reduce, 1e-9);
        assert_near(sl_to_ms(p.gather[0]), cases[i].gather, 1e-9);
        if (i == 4)
            assert_true(p.reduce[1] == 40 * SL_MS && p.reduce[2] == 0);
        sl_problem_free(&p);
    }
}

static void recomputation_moves_time_and_memory_to_the_backward(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text(SHAPE "  times_ms: {F: 3, I: 4, W: 5, B: 8}\n"
                              "  memory: {delta: {F: 6, I: -1, W: -5, input: [2, 1, 1]}}\n"
                              "  recompute: [true, false, true]\n",
                        &p));
    static const sl_time input[3] = {7, 4, 7}, full[3] = {11, 8, 11};
    static const double kept[3] = {2, 6, 1}, early[3] = {4, 0, 5};
    for (int s = 0; s < 3; s++) {
        assert_true(p.time[SL_F][s] == 3 * SL_MS && p.time[SL_W][s] == 5 * SL_MS);
        assert_true(p.time[SL_I][s] == input[s] * SL_MS && p.time[SL_B][s] == full[s] * SL_MS);
        assert_true(p.delta[SL_F][s] == kept[s] && p.early[s] == early[s]);
        assert_true(p.delta[SL_I][s] == -1 && p.delta[SL_W][s] == -5 && p.delta[SL_B][s] == -6);
        assert_int_equal(p.recompute[s], s != 1);
        /* taken at F's start, at I's start, given back at the ends */
        sl_op f = {.stage = s, .kind = SL_F}, i = {.stage = s, .kind = SL_I}, w = {.stage = s, .kind = SL_W};
        assert_true(sl_problem_start_memory(&p, &f) == kept[s] && sl_problem_end_memory(&p, &f) == 0);
        assert_true(sl_problem_start_memory(&p, &i) == early[s] && sl_problem_end_memory(&p, &i) == -1);
        assert_true(sl_problem_start_memory(&p, &w) == 0 && sl_problem_end_memory(&p, &w) == -5);
    }
    sl_problem_free(&p);
}

/* Both take memory when the backward starts: what the file says it takes, and what F did not keep. */
static void recomputed_memory_comes_on_top_of_what_the_backward_takes(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text(SHAPE TIMES "  memory: {delta: {F: 6, I_start: [3, 3, 0], I: -1, W: -8, input: 2}}\n"
                                    "  recompute: [true, false, true]\n",
                        &p));
    static const double kept[3] = {2, 6, 2}, early[3] = {7, 3, 4}, start[3] = {3, 3, 0};
    for (int s = 0; s < 3; s++) {
        sl_op i = {.stage = s, .kind = SL_I}, b = {.stage = s, .kind = SL_B};
        assert_true(p.delta[SL_F][s] == kept[s] && p.early[s] == early[s] && p.start[s] == start[s]);
        assert_true(sl_problem_start_memory(&p, &i) == early[s] &&
                    sl_problem_start_memory(&p, &b) == early[s]);
        assert_true(sl_problem_end_memory(&p, &i) == -1 && sl_problem_end_memory(&p, &b) == -9);
        assert_true(sl_problem_kept(&p, s, 0) == kept[s] &&
                    sl_problem_kept(&p, s, 1) == kept[s] + early[s] - 1);
    }
    sl_problem_free(&p);
}

/* A message's size stays known, so that its bandwidth can be told again: 0.25 MB at 0.1 Gbit/s take 20 ms. */
static void a_link_told_by_its_bandwidth_is_written_with_it(void **state) {
    (void)state;
    sl_problem p, q;
    assert_ok(read_text(SHAPE TIMES "  links: {list: [{between: [0, 1], latency_ms: 3, bandwidth_gbps: 0.1, "
                                    "message_mb: 0.25}]}\n",
                        &p));
    assert_true(p.link[1].transfer == 20 * SL_MS && p.link[1].bytes == 250000 && p.link[5].bytes == 0);
    char *text = write_text(&p);
    assert_non_null(strstr(text, "message_mb: 0.25}"));
    assert_ok(read_text(text, &q));
    assert_same(&p, &q);
    free(text);
    sl_problem_free(&p);
    sl_problem_free(&q);
}

/* Seven layers on three ranks, the second twice as fast, the third half: evenly 2, 2, 3, cut again 1, 4, 2.
 * F of layer l takes l + 1. */
static void layers_are_cut_into_stages(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text(
        SHAPE "  layers:\n    count: 7\n    times_ms: {F: [1, 2, 3, 4, 5, 6, 7], I: 1, W: 2}\n"
              "    delta: {F: 2, W: -2}\n    weights: [1, 1, 1, 1, 1, 1, 4]\n    speed: [1, 2, 0.5]\n"
              "  memory: {limit: [10, 10, 5]}\n",
        &p));
    static const double f[2][3] = {{3, 3.5, 36}, {1, 7, 26}}, i[2][3] = {{2, 1, 6}, {1, 2, 4}},
                        full[2][3] = {{6, 3, 18}, {3, 6, 12}}, kept[2][3] = {{4, 4, 6}, {2, 8, 4}},
                        left[2][3] = {{8, 8, 0}, {9, 6, 0}}; /* less 2, 2, 6 and 1, 4, 5 of weights */
    static const int again[4] = {0, 1, 5, 7};
    for (int cut = 0; cut < 2; cut++) {
        if (cut)
            sl_problem_cut(&p, again);
        for (int s = 0; s < 3; s++) {
            assert_near(sl_to_ms(p.time[SL_F][s]), f[cut][s], 1e-9);
            assert_near(sl_to_ms(p.time[SL_I][s]), i[cut][s], 1e-9);
            assert_near(sl_to_ms(p.time[SL_B][s]), full[cut][s], 1e-9);
            assert_true(p.delta[SL_F][s] == kept[cut][s] && p.delta[SL_W][s] == -kept[cut][s]);
            assert_true(p.limit[s] == left[cut][s]);
        }
    }
    sl_problem_free(&p);
}

/* The times of F, I, W and two messages of both directions, for the most stages and microbatches, stay inside
 * what int64 can hold; more is refused, with the sum. 1300 * 1000 stages and microbatches, 3e6 ms
 * each: 3.9e12 ms; the links of 998 hops, both ways, 1e5 each: 2.6e11. */
static void what_takes_too_long_in_a_row_is_refused(void **state) {
    (void)state;
    static const char shape[] =
        "pipeline:\n  ranks: 1000\n  microbatches: 1300\n  times_ms: {F: 1e6, I: 1e6, W: 1e6}\n";
    char text[512];
    sl_problem p;
    assert_ok(read_text(shape, &p));
    sl_problem_free(&p);
    snprintf(text, sizeof text, "%s  links: {default: {latency_ms: 1e5}}\n", shape);
    assert_fails(read_text(text, &p), SL_EINVAL,
                 "p.yaml:3: 'microbatches' makes ops and messages that take 4.1597");
    sl_problem_free(&p);
    snprintf(text, sizeof text, "%s  links: {default: {jitter_ms: 1e4}, percentile: 1}\n",
             shape); /* what may be drawn */
    assert_fails(read_text(text, &p), SL_EINVAL, "'microbatches' makes ops and messages");
    sl_problem_free(&p);
    snprintf(text, sizeof text, "%s  recompute: true\n", shape); /* 5.2e12 */
    assert_fails(read_text(text, &p), SL_EINVAL, "take 5.2e+12 ms one after the other; at most 4e+12");
    sl_problem_free(&p);
}

/* ---- round trips of files with everything in them ---- */

static void print_numbers(FILE *out, const char *name, int count, double most) {
    int list = (int)draw(2);
    fprintf(out, "%s: %s", name, list ? "[" : "");
    for (int i = 0; i < (list ? count : 1); i++) {
        double value = most * (double)draw(1000000) / 1e6;
        fprintf(out, "%s%.9g", i ? ", " : "", value);
    }
    fprintf(out, "%s", list ? "]" : "");
}

static void print_costs(FILE *out, int count, int layers) {
    fprintf(out, layers ? "  layers:\n    count: %d\n    times_ms: {" : "  times_ms: {", count);
    print_numbers(out, "F", count, 90);
    print_numbers(out, ", I", count, 90);
    print_numbers(out, ", W", count, 90);
    if (draw(2))
        print_numbers(out, ", B", count, 200);
    if (!layers && draw(2))
        print_numbers(out, ", FB", count, 300);
    fprintf(out, layers ? "}\n    delta: {" : "}\n  memory:\n    delta: {");
    print_numbers(out, "F", count, 30);
    print_numbers(out, ", I", count, -10);
    print_numbers(out, ", W", count, -20);
    if (!layers)
        print_numbers(out, ", input", count, 3);
    fprintf(out, "}\n");
}

static void print_links(FILE *out, int ranks) {
    fprintf(out, "  links:\n    percentile: %.9g\n    default: {", (double)draw(99999) / 1000);
    fprintf(out, "latency_ms: %.9g, jitter_ms: %.9g, transfer_ms: %.9g}\n", (double)draw(1000) / 77,
            (double)draw(100000) / 777, (double)draw(1000) / 33);
    if (ranks < 3)
        return;
    fprintf(out,
            "    list: [{between: [2, 0], jitter_ms: 0.00%d, one_way: true}, {between: [0, 1], "
            "bandwidth_gbps: 3, message_mb: %d}]\n",
            (int)draw(9999), (int)draw(99));
    fprintf(out, "    shared: [{name: a, links: [[0, 1], [1, 2]]}, {name: none, links: []}, {name: b, links: "
                 "[[2, 0]]}]\n");
}

/* A random file with any of the features. */
static char *draw_text(void) {
    static const char *const placements[] = {"linear", "loop", "wave", "bidirectional"}, *const regimes[] = {
                                                                                             "decoupled",
                                                                                             "inorder",
                                                                                             "batched"};
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    int ranks = 1 + (int)draw(5), placement = (int)draw(4), layers = draw(3) == 0;
    int stages = placement == 0 ? ranks : 2 * ranks;
    fprintf(out, "pipeline:\n  ranks: %d\n  microbatches: %d\n  placement: %s\n", ranks, 1 + (int)draw(40),
            placements[placement]);
    print_costs(out, layers ? stages + (int)draw(9) : stages, layers);
    if (layers)
        fprintf(out, "    weights: %.9g\n    speed: %.9g\n  memory:\n", (double)draw(1000) / 33,
                0.5 + (double)draw(100) / 77);
    print_numbers(out, "    limit", ranks, 1e9);
    fprintf(out, "\n");
    if (draw(2))
        print_links(out, ranks);
    if (draw(2) && !layers)
        fprintf(out, "  recompute: true\n");
    fprintf(out, "  data_parallel: {");
    print_numbers(out, "reduce_ms", stages, 100);
    print_numbers(out, ", gather_ms", stages, 100);
    fprintf(out, "}\n  parts: %d\n  communication: %s\n  queue: %d\n", 1 + (int)draw(8), regimes[draw(3)],
            1 + (int)draw(4));
    fclose(out);
    return text;
}

static void any_file_that_is_read_is_written_as_the_same_problem(void **state) {
    (void)state;
    const char *given = getenv("SL_SEED");
    random_state = given ? (unsigned)atoi(given) : 77u;
    printf("seed %u\n", random_state);
    for (int round = 0; round < 2000; round++) {
        sl_problem p, q, copy;
        char *text = draw_text(), *written;
        if (read_text(text, &p) != SL_OK)
            fail_msg("%s of\n%s", sl_error_text(), text);
        written = write_text(&p);
        if (read_text(written, &q) != SL_OK)
            fail_msg("%s of\n%s", sl_error_text(), written);
        assert_same(&p, &q);
        assert_ok(sl_problem_copy(&p, &copy));
        assert_same(&p, &copy);
        free(text);
        free(written);
        sl_problem_free(&p);
        sl_problem_free(&q);
        sl_problem_free(&copy);
    }
}

/* A measured latency may be below the share that its jitter was planned with: it must be read back as it is.
 */
static void a_measured_link_is_written_as_measured(void **state) {
    (void)state;
    sl_problem p, q;
    assert_ok(read_text(SHAPE TIMES "  links: {default: {latency_ms: 1, jitter_ms: 10}}\n", &p));
    p.link[1].latency = 3 * SL_MS;
    char *text = write_text(&p);
    assert_ok(read_text(text, &q));
    assert_int_equal(q.link[1].latency, 3 * SL_MS);
    assert_int_equal(q.link[2].latency, p.link[2].latency);
    free(text);
    sl_problem_free(&p);
    sl_problem_free(&q);
}

/* The defaults of B are sums, so they may pass the limit of one op; what was read can still be written and
 * read. */
static void a_default_link_and_the_longest_ops_survive_the_round_trip(void **state) {
    (void)state;
    sl_problem p, q;
    assert_ok(read_text(SHAPE
                        "  times_ms: {F: 1e6, I: 1e6, W: 1e6}\n  memory: {delta: {I: -1e15, W: -1e15}}\n"
                        "  links: {default: {latency_ms: 1e6, transfer_ms: 1e6}}\n",
                        &p));
    char *text = write_text(&p);
    assert_ok(read_text(text, &q));
    assert_same(&p, &q);
    free(text);
    sl_problem_free(&p);
    sl_problem_free(&q);
}

static void a_full_disk_is_an_error(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(sl_problem_make(2, 2, 2, &p));
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    assert_fails(sl_problem_write(&p, full), SL_ESYS, "cannot be written");
    fclose(full);
    sl_problem_free(&p);
}

/* The reference and completion name every key that the reader takes. */
static void look_for_key(const char *path, const sl_key *key, void *context) {
    const char **wanted = context;
    (void)path;
    *wanted = *wanted && strcmp(*wanted, key->name) == 0 ? NULL : *wanted;
}

static void the_documentation_names_every_key(void **state) {
    (void)state;
    static const char *const keys[] = {"ranks",       "microbatches",
                                       "placement",   "stages",
                                       "times_ms",    "F",
                                       "I",           "W",
                                       "B",           "delta",
                                       "limit",       "default",
                                       "list",        "between",
                                       "one_way",     "latency_ms",
                                       "transfer_ms", "bandwidth_gbps",
                                       "message_mb",  "communication",
                                       "queue"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *wanted = keys[i];
        sl_problem_visit_keys(look_for_key, &wanted);
        if (wanted)
            fail_msg("'%s' is not visited", wanted);
    }
}

static void every_failed_allocation_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    int failures = 0, done = 0;
    for (long n = 0; !done && n < 2000; n++) {
        sl_problem p, copy = {0};
        sl_alloc_fail_at(n);
        sl_status status =
            read_text(SHAPE TIMES "  memory: {delta: {F: [1, 2, 3]}, limit: 4}\n"
                                  "  links: {list: [{between: [0, 1], latency_ms: 4}],\n"
                                  "    shared: [{name: a, links: [[0, 1], [1, 2]]}]}\n"
                                  "  recompute: true\n"
                                  "  data_parallel: {replicas: 2, volume_mb: 1, bandwidth_gbps: 1}\n",
                      &p);
        if (status == SL_OK)
            status = sl_problem_copy(&p, &copy);
        sl_alloc_fail_at(-1);
        done = status == SL_OK;
        if (!done)
            assert_int_equal(status, SL_ENOMEM);
        failures += !done;
        sl_problem_free(&p);
        sl_problem_free(&copy);
    }
    assert_true(done && failures > 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_absent_has_the_documented_defaults),
        cmocka_unit_test(memory_may_be_given_per_stage_and_per_rank),
        cmocka_unit_test(fixed_memory_comes_off_the_limit),
        cmocka_unit_test(recomputed_memory_comes_on_top_of_what_the_backward_takes),
        cmocka_unit_test(a_link_told_by_its_bandwidth_is_written_with_it),
        cmocka_unit_test(links_replace_the_default_and_take_decimal_units),
        cmocka_unit_test(neutral_values_change_nothing),
        cmocka_unit_test(host_memory_is_one_number_or_one_per_rank_and_its_time_one_per_stage),
        cmocka_unit_test(every_mistake_is_named_with_its_place),
        cmocka_unit_test(what_is_written_reads_back_to_the_same_problem),
        cmocka_unit_test(every_placement_has_its_stages),
        cmocka_unit_test(two_pipelines_divide_the_microbatches),
        cmocka_unit_test(shared_links_are_one_wire_per_direction),
        cmocka_unit_test(plans_count_on_the_percentile_of_jitter),
        cmocka_unit_test(a_ring_takes_its_steps_on_its_slowest_link),
        cmocka_unit_test(recomputation_moves_time_and_memory_to_the_backward),
        cmocka_unit_test(layers_are_cut_into_stages),
        cmocka_unit_test(what_takes_too_long_in_a_row_is_refused),
        cmocka_unit_test(any_file_that_is_read_is_written_as_the_same_problem),
        cmocka_unit_test(a_measured_link_is_written_as_measured),
        cmocka_unit_test(a_default_link_and_the_longest_ops_survive_the_round_trip),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(the_documentation_names_every_key),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
