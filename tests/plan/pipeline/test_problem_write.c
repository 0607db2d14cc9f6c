/* A problem that is written reads back as the same problem, exact to the ns. */
#include "plan/pipeline/problem_text.h"

#include "base/memory.h"
#include "plan/pipeline/layers.h"

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
    static const sl_regime regimes[] = {SL_DECOUPLED, SL_INORDER, SL_FIFO};
    p->communication = regimes[draw(3)];
    if (p->communication == SL_FIFO) {
        p->communicators = (sl_communicators)draw(4);
        p->receive_buffers = draw(2) ? 2 + (int)draw(9) : 0;
    }
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
        assert_true(a->weights[i] == b->weights[i] && a->early[i] == b->early[i] &&
                    a->input[i] == b->input[i]);
    assert_int_equal(a->recompute, b->recompute);
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
    assert_true(a->communicators == b->communicators && a->eager == b->eager);
    assert_int_equal(a->receive_buffers, b->receive_buffers);
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
    print_numbers(out, ", input", count, 3);
    if (layers)
        print_numbers(out, ", I_start", count, 5);
    fprintf(out, "}\n");
}

/* All stages, none, some, or as plans choose. */
static void print_recompute(FILE *out, int stages) {
    int kind = (int)draw(4);
    fprintf(out, "  recompute: %s",
            kind == 0   ? "auto\n"
            : kind == 1 ? "true\n"
            : kind == 2 ? "false\n"
                        : "[");
    for (int stage = 0; stage < stages && kind == 3; stage++)
        fprintf(out, "%s%s", draw(2) ? "true" : "false", stage == stages - 1 ? "]\n" : ", ");
}

/* As a search leaves a problem with layers: another cut, and other stages that recompute. */
static void cut_randomly(sl_problem *p) {
    int stages = p->placement == SL_BIDIRECTIONAL ? p->ranks : p->stages, at = 0;
    int *first = calloc((size_t)p->stages + 1, sizeof *first);
    for (int stage = 0; stage < stages; stage++) {
        first[stage] = at;
        at += 1 + (int)draw(p->layers->count - at - (stages - stage) + 1);
    }
    first[stages] = p->layers->count;
    for (int stage = 0; stage < p->stages && p->layers->recompute; stage++)
        p->recompute[stage] = (unsigned char)draw(2);
    sl_problem_cut(p, first);
    free(first);
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
    static const char *const placements[] = {"linear", "loop", "wave", "bidirectional"},
                             *const regimes[] = {"decoupled", "inorder", "batched", "fifo",
                                                 "{regime: fifo, communicators: kind}"};
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
    if (layers && draw(4))
        print_recompute(out, stages);
    if (draw(3) == 0)
        fprintf(out, "  overhead_ms: {op: 0.0%d, message: 0.00%d}\n", (int)draw(100), (int)draw(100));
    fprintf(out, "  data_parallel: {");
    print_numbers(out, "reduce_ms", stages, 100);
    print_numbers(out, ", gather_ms", stages, 100);
    fprintf(out, "}\n  parts: %d\n  communication: %s\n  queue: %d\n", 1 + (int)draw(8), regimes[draw(5)],
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
        if (p.layers && draw(4))
            cut_randomly(&p);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back_to_the_same_problem),
        cmocka_unit_test(a_link_told_by_its_bandwidth_is_written_with_it),
        cmocka_unit_test(any_file_that_is_read_is_written_as_the_same_problem),
        cmocka_unit_test(a_measured_link_is_written_as_measured),
        cmocka_unit_test(a_default_link_and_the_longest_ops_survive_the_round_trip),
        cmocka_unit_test(a_full_disk_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
