/* A problem that is filled in is the one that the reader of files makes of the same values: the reader is the
 * other program, and both are compared as written. */
#include "library/check_library.h"

static const char file[] =
    "pipeline:\n"
    "  ranks: 4\n"
    "  microbatches: 6\n"
    "  times_ms: {F: [1, 2, 3, 4], I: [5, 6, 7, 8], W: [1, 1, 1, 2], B: [6, 7, 9, 9.5], FB: [7, 8, 10, 11]}\n"
    "  memory: {delta: {F: [4, 5, 6, 7], I: -1, W: -3, input: [0, 1, 0, 2]}, limit: [20, 1e15, 30, 1e15], "
    "host_limit: [0, 0, 0, 5], offload_ms: [0, 0, 7, 0]}\n"
    "  recompute: [false, true, false, true]\n"
    "  parts: 2\n"
    "  data_parallel: {reduce_ms: [3, 0, 0, 1], gather_ms: [0, 2, 0, 0]}\n"
    "  links:\n"
    "    percentile: 95\n"
    "    list:\n"
    "      - {between: [0, 1], latency_ms: 3, transfer_ms: 2, jitter_ms: 1}\n"
    "      - {between: [2, 1], latency_ms: 4, one_way: true}\n"
    "    shared: [{name: a, links: [[0, 1], [2, 3]]}, {name: b, links: [[1, 2]]}]\n"
    "  communication: inorder\n"
    "  queue: 3\n";

static void set_stages(slackline_problem *p) {
    static const int64_t time[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {1, 1, 1, 2}}, both[4] = {7, 8, 10, 11};
    for (int stage = 3; stage >= 0; stage--) {
        for (int kind = SLACKLINE_W; kind >= SLACKLINE_F; kind--)
            works(slackline_problem_set_time(p, stage, (slackline_kind)kind, time[kind][stage] * ms));
        works(slackline_problem_set_memory(p, stage, SLACKLINE_F, 4 + stage));
        works(slackline_problem_set_memory(p, stage, SLACKLINE_W, -3));
        works(slackline_problem_set_memory(p, stage, SLACKLINE_I, -1));
    }
    works(slackline_problem_set_time(p, 2, SLACKLINE_B, 9 * ms));
    works(slackline_problem_set_time(p, 3, SLACKLINE_B, 19 * ms / 2));
    for (int stage = 0; stage < 4; stage++)
        works(slackline_problem_set_overlapped(p, stage, both[stage] * ms));
}

static void set_recompute(slackline_problem *p) {
    works(slackline_problem_set_recompute(p, 1, 1, 1));
    works(slackline_problem_set_recompute(p, 2, 1, 9));
    works(slackline_problem_set_recompute(p, 2, 0, 0));
    works(slackline_problem_set_recompute(p, 3, 1, 2));
}

static void set_ranks_and_links(slackline_problem *p) {
    static const int from[] = {0, 2, 1}, to[] = {1, 3, 2};
    works(slackline_problem_set_limit(p, 2, 30));
    works(slackline_problem_set_limit(p, 0, 20));
    works(slackline_problem_set_host(p, 1, 0));
    works(slackline_problem_set_host(p, 3, 5));
    works(slackline_problem_set_offload(p, 2, 7 * ms));
    works(slackline_problem_set_parts(p, 2));
    works(slackline_problem_set_collectives(p, 0, 0, 3 * ms));
    works(slackline_problem_set_collectives(p, 1, 2 * ms, 0));
    works(slackline_problem_set_collectives(p, 3, 0, 1 * ms));
    for (int way = 0; way < 2; way++) {
        works(slackline_problem_set_link(p, way, 1 - way, 3 * ms, 2 * ms));
        works(slackline_problem_set_jitter(p, way, 1 - way, 5 * ms));
        works(slackline_problem_set_jitter(p, way, 1 - way, 1 * ms));
    }
    works(slackline_problem_set_percentile(p, 95));
    works(slackline_problem_set_link(p, 2, 1, 4 * ms, 0));
    works(slackline_problem_share_links(p, from, to, 2));
    works(slackline_problem_share_links(p, from + 2, to + 2, 1));
    works(slackline_problem_set_regime(p, SLACKLINE_INORDER, 3));
}

static char *written(const slackline_problem *problem) {
    char *text;
    size_t size = 0;
    works(slackline_problem_write(problem, &text, &size));
    assert_int_equal(size, strlen(text));
    return text;
}

static void assert_same(const slackline_problem *a, const slackline_problem *b) {
    char *left = written(a), *right = written(b);
    assert_string_equal(left, right);
    slackline_free(left);
    slackline_free(right);
}

static void a_problem_filled_in_is_the_one_of_the_file(void **state) {
    (void)state;
    slackline_problem *read, *made, *again, *copy;
    works(slackline_problem_parse("p", file, NULL, 0, &read));
    for (int first = 0; first < 2; first++) { /* recomputation before or after the times that it adds to */
        works(slackline_problem_make(SLACKLINE_LINEAR, 4, 0, 6, &made));
        if (first)
            set_recompute(made);
        set_stages(made);
        if (!first)
            set_recompute(made);
        set_ranks_and_links(made);
        assert_same(made, read);
        works(slackline_problem_copy(made, &copy));
        assert_same(copy, read);
        slackline_problem_free(copy);
        slackline_problem_free(made);
    }
    char *text = written(read);
    works(slackline_problem_parse("p", text, NULL, 0, &again));
    assert_same(again, read);
    slackline_free(text);
    slackline_problem_free(again);
    slackline_problem_free(read);
}

/* A B that the file gives stays when I changes; one that is I + W follows. */
static void a_full_backward_follows_only_until_it_is_set(void **state) {
    (void)state;
    static const char *const set[] = {"pipeline.times_ms.I=[5, 6, 20, 8]",
                                      "pipeline.times_ms.B=[6, 7, 9, 9.5]"},
                             *const follows[] = {"pipeline.times_ms.I=[20, 6, 7, 8]",
                                                 "pipeline.times_ms.B=[21, 7, 9, 9.5]",
                                                 "pipeline.times_ms.FB=[22, 8, 10, 11]"};
    slackline_problem *changed, *expected;
    works(slackline_problem_parse("p", file, NULL, 0, &changed));
    works(slackline_problem_set_time(changed, 2, SLACKLINE_I, 20 * ms));
    works(slackline_problem_parse("p", file, set, 2, &expected));
    assert_same(changed, expected);
    slackline_problem_free(changed);
    slackline_problem_free(expected);
    works(slackline_problem_parse("p", file, NULL, 0, &changed));
    works(slackline_problem_set_time(changed, 0, SLACKLINE_I, 20 * ms)); /* the overlap saves 0 as before */
    works(slackline_problem_parse("p", file, follows, 3, &expected));
    assert_same(changed, expected);
    slackline_problem_free(changed);
    slackline_problem_free(expected);
}

static void wrong_values_are_refused_and_change_nothing(void **state) {
    (void)state;
    static const int from[] = {0, 0}, to[] = {3, 1}, self[] = {2};
    slackline_problem *p, *before;
    works(slackline_problem_parse("p", file, NULL, 0, &p));
    works(slackline_problem_copy(p, &before));
    refuses(slackline_problem_set_time(p, 0, SLACKLINE_F, 1000001 * ms), "from 0 to 1000000000000 ns");
    refuses(slackline_problem_set_time(p, -1, SLACKLINE_F, 1), "stage -1");
    refuses(slackline_problem_set_time(p, 0, (slackline_kind)77, 1), "kind 77");
    refuses(slackline_problem_set_memory(p, 0, SLACKLINE_F, 1.0 / 0.0), "a change of memory");
    refuses(slackline_problem_set_memory(p, 0, SLACKLINE_F, 0.0 / 0.0), "a change of memory");
    refuses(slackline_problem_set_recompute(p, 0, 1, -1), "input");
    refuses(slackline_problem_set_overlapped(p, 4, 1), "stage 4");
    refuses(slackline_problem_set_parts(p, 65), "from 1 to 64");
    refuses(slackline_problem_set_limit(p, 4, 1), "rank 4");
    refuses(slackline_problem_set_limit(p, 0, 1e16), "limit");
    refuses(slackline_problem_set_host(p, 4, 1), "rank 4");
    refuses(slackline_problem_set_host(p, 0, -1), "from 0 to 1000000000");
    refuses(slackline_problem_set_offload(p, 0, 1000001 * ms), "from 0 to");
    refuses(slackline_problem_set_jitter(p, 0, 0, 1), "rank 0 with itself");
    refuses(slackline_problem_set_jitter(p, 0, 1, 1000000 * ms), "at most 1e+06");
    refuses(slackline_problem_set_percentile(p, 100), "percentile");
    refuses(slackline_problem_set_regime(p, (slackline_regime)9, 1), "regime 9");
    refuses(slackline_problem_share_links(p, from, to, 2), "link 0-1 has a wire already");
    refuses(slackline_problem_share_links(p, self, self, 1), "itself");
    refuses(slackline_problem_share_links(p, from, to, 0), "a wire needs a link");
    assert_same(p, before);
    slackline_problem_free(p);
    slackline_problem_free(before);
    refuses(slackline_problem_make((slackline_placement)4, 1, 0, 1, &p), "placement 4");
    refuses(slackline_problem_make(SLACKLINE_LOOP, INT32_MIN, 0, 1, &p), "ranks must be");
    works(slackline_problem_parse(
        "p", "pipeline: {ranks: 2, microbatches: 2, layers: {count: 4, times_ms: {F: 1, I: 1, W: 1}}}", NULL,
        0, &p));
    refuses(slackline_problem_set_time(p, 0, SLACKLINE_F, 1), "cut from layers");
    refuses(slackline_problem_set_limit(p, 0, 1), "cut from layers");
    slackline_problem_free(p);
}

/* All that one iteration does, one after the other, must stay below 4e12 ms (docs/formats.md). */
static void a_problem_beyond_64_bits_is_refused(void **state) {
    (void)state;
    slackline_problem *p;
    slackline_planner *planner;
    slackline_plan *plan;
    works(slackline_problem_make(SLACKLINE_LOOP, 64, 1024, 1200, &p));
    for (int stage = 0; stage < 1024; stage++)
        for (int kind = SLACKLINE_F; kind <= SLACKLINE_W; kind++)
            works(slackline_problem_set_time(p, stage, (slackline_kind)kind, 1000000 * ms));
    for (int from = 0; from < 64; from++)
        for (int to = 0; to < 64; to++)
            if (from != to)
                works(slackline_problem_set_link(p, from, to, 1000000 * ms, 1000000 * ms));
    works(slackline_planner_make(&planner));
    refuses(slackline_planner_plan(planner, p, &plan), "at most 4e+12");
    slackline_planner_free(planner);
    slackline_problem_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_problem_filled_in_is_the_one_of_the_file),
        cmocka_unit_test(a_full_backward_follows_only_until_it_is_set),
        cmocka_unit_test(wrong_values_are_refused_and_change_nothing),
        cmocka_unit_test(a_problem_beyond_64_bits_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
