/* What follows from the keys of a problem file, by hand: placements, wires, jitter, collectives,
 * recomputation, cuts of layers. */
#include "plan/pipeline/problem_text.h"

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
    assert_ok(read_text(SHAPE "  layers:\n    count: 7\n    cut: [1, 4, 2]\n"
                              "    times_ms: {F: [1, 2, 3, 4, 5, 6, 7], I: 1, W: 2}\n    speed: [1, 2, 0.5]\n",
                        &p));
    for (int s = 0; s < 3; s++)
        assert_near(sl_to_ms(p.time[SL_F][s]), f[1][s], 1e-9);
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_placement_has_its_stages),
        cmocka_unit_test(two_pipelines_divide_the_microbatches),
        cmocka_unit_test(shared_links_are_one_wire_per_direction),
        cmocka_unit_test(plans_count_on_the_percentile_of_jitter),
        cmocka_unit_test(a_ring_takes_its_steps_on_its_slowest_link),
        cmocka_unit_test(recomputation_moves_time_and_memory_to_the_backward),
        cmocka_unit_test(recomputed_memory_comes_on_top_of_what_the_backward_takes),
        cmocka_unit_test(layers_are_cut_into_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
