/* Every mistake in a problem file is named with file, line and key. */
#include "plan/pipeline/problem_text.h"

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
        {SHAPE "  layers: {count: 4, cut: [2, 2], times_ms: {F: 1, I: 1, W: 1}}\n", "p.yaml:4: 'cut'",
         "must be a list of 3, one per stage"},
        {SHAPE "  layers: {count: 4, cut: [2, 1, 2], times_ms: {F: 1, I: 1, W: 1}}\n", "p.yaml:4: 'cut'",
         "has 5 layers in all, but 'count' is 4"},
        {SHAPE "  layers: {count: 4, cut: [4, 0, 0], times_ms: {F: 1, I: 1, W: 1}}\n", "p.yaml:4: 'cut'",
         "whole numbers from 1 to 4 (stage 1)"},
        {SHAPE "  layers: {layout: 'Et|t|tL', cut: [1, 1, 2], times_ms: {F: 1, I: 1, W: 1}}\n",
         "p.yaml:4: 'cut'", "is given by 'layout'"},
        {SHAPE "  layers: {count: 4, recomputed: [true, true, false], times_ms: {F: 1, I: 1, W: 1}}\n",
         "p.yaml:4: 'recomputed'", "is only for 'recompute: auto'"},
        {SHAPE "  layers: {count: 4, recomputed: [true], times_ms: {F: 1, I: 1, W: 1}}\n  recompute: auto\n",
         "p.yaml:4: 'recomputed'", "must be a list of 3, one per stage"},
        {SHAPE
         "  layers: {count: 4, recomputed: [1.5, 2, [3]], times_ms: {F: 1, I: 1, W: 1}}\n  recompute: auto\n",
         "p.yaml:4: 'recomputed'", "must be a list of true and false"},
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
         "at most 16777216"},
        {SHAPE TIMES "  stages: 4\n", "p.yaml:5: 'stages'",
         "must be as many as ranks (3) with placement linear, got 4"},
        {SHAPE TIMES "  placement: loops\n", "p.yaml:5: 'placement'", "linear"},
        {SHAPE TIMES "  placement: loop\n  stages: 4\n", "p.yaml:6: 'stages'", "multiple of ranks (3)"},
        {SHAPE TIMES "  placement: wave\n  stages: 0\n", "p.yaml:6: 'stages'", "multiple of ranks (3)"},
        {SHAPE TIMES "  placement: bidirectional\n  stages: 3\n", "p.yaml:6: 'stages'",
         "twice the ranks (6)"},
        {SHAPE TIMES "  communication: both\n", "p.yaml:5: 'communication'", "decoupled, inorder, batched"},
        {SHAPE TIMES "  communication: [fifo]\n", "p.yaml:5: 'communication'", "map"},
        {SHAPE TIMES "  communication: {regime: fifo, communicators: all}\n", "p.yaml:5: 'communicators'",
         "pipeline, pair, direction, kind"},
        {SHAPE TIMES "  communication: {regime: fifo, eager_kb: -1}\n", "p.yaml:5: 'eager_kb'", "at least 0"},
        {SHAPE TIMES "  communication: {regime: fifo, eager_kb: 1}\n", "p.yaml:5: 'communication'",
         "link 0-1 lacks bandwidth_gbps and message_mb"},
        {SHAPE TIMES "  communication: {regime: fifo, receive_buffers: 1}\n", "p.yaml:5: 'communication'",
         "receive_buffers 1"},
        {SHAPE TIMES "  communication: {regime: fifo, receive_memory: 1}\n", "p.yaml:5: 'communication'",
         "needs receive_buffers"},
        {SHAPE TIMES
         "  memory: {limit: 2}\n  communication: {regime: fifo, receive_buffers: 3, receive_memory: 1}\n",
         "p.yaml:6: 'communication'", "takes 3 for receive buffers on rank 0, over its limit of 2"},
        {SHAPE TIMES "  communication: {regime: batched, receive_buffers: 2}\n", "p.yaml:5: 'communication'",
         "only regime fifo"},
        {SHAPE TIMES "  communication: {communicators: pair}\n", "p.yaml:5: 'communication'",
         "only regime fifo"},
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
        assert_says(sl_error_text(), cases[i].place);
        assert_says(sl_error_text(), cases[i].says);
        assert_null(strchr(sl_error_text(), '\n'));
        sl_problem_free(&p);
    }
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
                 "p.yaml:3: 'microbatches' makes ops and messages that take 4.15974e+12");
    sl_problem_free(&p);
    snprintf(text, sizeof text, "%s  links: {default: {jitter_ms: 1e4}, percentile: 1}\n",
             shape); /* what may be drawn */
    assert_fails(read_text(text, &p), SL_EINVAL, "'microbatches' makes ops and messages");
    sl_problem_free(&p);
    snprintf(text, sizeof text, "%s  recompute: true\n", shape); /* 5.2e12 */
    assert_fails(read_text(text, &p), SL_EINVAL, "take 5.2e+12 ms one after the other; at most 4e+12");
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mistake_is_named_with_its_place),
        cmocka_unit_test(what_takes_too_long_in_a_row_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
