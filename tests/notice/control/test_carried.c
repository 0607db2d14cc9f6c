/* What healthy calls have carried, against what tests find now. */
#include "check.h"
#include "notice/control/carried.h"
#include <math.h>

/* Ranks 0 and 1 on one node, 2 and 3 on the other. */
static const int nodes[4] = {0, 0, 1, 1};

/* A sum of `bytes` over all ranks, `times` times, of which the last rank came at 0 and the last one ended
 * after `within` ns, as a profile. */
static void sums(uint64_t bytes, int64_t within, int ranks, sl_call_profile **profile) {
    enum { TIMES = 6 };
    sl_call call[4 * TIMES];
    size_t count = 0;
    for (int i = 0; i < TIMES; i++)
        for (int rank = 0; rank < ranks; rank++)
            call[count++] = (sl_call){.kind = SL_RECORD_CALL,
                                      .call = SL_CALL_glooAllreduce,
                                      .tag = -1,
                                      .rank = rank,
                                      .peer = SL_PEER_NONE,
                                      .communicator = 7,
                                      .bytes = bytes,
                                      .device = -1,
                                      .start = 1000000000ll * (i + 1) - 1000 * rank,
                                      .end = 1000000000ll * (i + 1) + within - 1000 * rank};
    assert_int_equal(sl_call_profile_make(call, count, ranks, 0, profile), SL_OK);
}

static sl_tested_direction direction(int from, int to, double gb_per_s, double latency_ms) {
    return (sl_tested_direction){
        .from = from, .to = to, .gb_per_s = gb_per_s, .latency_ms = latency_ms, .cv = 0.02};
}

/* 1 MiB went each way within 10 ms: 0.105 GB/s, of which two ranks of a node may have sent half each, so that
 * a test that finds less than 0.0524 GB/s has found what was not so. */
static void what_carries_less_than_it_did_is_slow(void **state) {
    (void)state;
    sl_call_profile *healthy, *now;
    sl_suspect found;
    sums(1 << 20, 10 * 1000000, 4, &healthy);
    sums(1 << 20, 100 * 1000000, 4, &now);
    const sl_tested_direction slow[] = {direction(0, 1, 2, 0.02), direction(1, 2, 0.012, 0.1),
                                        direction(2, 1, 0.12, 0.1)};
    assert_true(sl_carried_compare(healthy, now, 0, slow, 3, nodes, 4, &found));
    assert_int_equal(found.component, SL_COMPONENT_LINK);
    assert_int_equal(found.from, 1);
    assert_int_equal(found.to, 2);
    assert_int_equal(found.both, 0);
    assert_true(found.measured == 0.012);
    assert_true(fabs(found.expected - 1048576 / 1e7 / 2) < 1e-4);
    const sl_tested_direction both[] = {direction(1, 2, 0.02, 0.1), direction(2, 1, 0.012, 0.1)};
    assert_true(sl_carried_compare(healthy, now, 0, both, 2, nodes, 4, &found));
    assert_true(found.from == 2 && found.to == 1 && found.both);
    const sl_tested_direction well[] = {direction(1, 2, 0.049, 0.1), direction(2, 1, 0.12, 0.1),
                                        direction(0, 1, 0.001, 30)}; /* within a node: nothing is known */
    assert_false(sl_carried_compare(healthy, now, 0, well, 3, nodes, 4, &found));
    /* calls that carry more than the test finds go another way: the work grew, or something else is slow */
    assert_false(sl_carried_compare(healthy, healthy, 0, slow, 3, nodes, 4, &found));
    /* clocks that may be 10 ms apart: half as much is known */
    const sl_tested_direction vague[] = {direction(1, 2, 0.03, 0.1)};
    assert_true(sl_carried_compare(healthy, now, 0, vague, 1, nodes, 4, &found));
    assert_false(sl_carried_compare(healthy, now, 10 * 1000000, vague, 1, nodes, 4, &found));
    sl_call_profile_close(healthy);
    sl_call_profile_close(now);
}

static void what_takes_longer_than_it_did_is_slow(void **state) {
    (void)state;
    sl_call_profile *healthy, *now;
    sl_suspect found;
    sums(8, 2 * 1000000, 4, &healthy);
    sums(8, 60 * 1000000, 4, &now);
    const sl_tested_direction late[] = {direction(1, 2, 0.1, 50), direction(2, 1, 0.1, 50)};
    assert_true(sl_carried_compare(healthy, now, 0, late, 2, nodes, 4, &found));
    assert_int_equal(found.component, SL_COMPONENT_LINK);
    assert_true(found.both);
    assert_true(found.measured == 50);
    assert_true(fabs(found.expected - 2) < 0.01);
    assert_false(sl_carried_compare(healthy, healthy, 0, late, 2, nodes, 4, &found)); /* another way */
    const sl_tested_direction well[] = {direction(1, 2, 0.1, 2.05), direction(2, 1, 0.1, 2.05)};
    assert_false(sl_carried_compare(healthy, now, 0, well, 2, nodes, 4, &found));
    sl_call_profile_close(healthy);
    sl_call_profile_close(now);
}

/* Of three nodes each byte may have gone around; tests compare ways of three nodes with each other anyway. */
static void three_nodes_prove_nothing(void **state) {
    (void)state;
    static const int three[4] = {0, 0, 1, 2};
    sl_call_profile *healthy, *now;
    sl_suspect found;
    sums(1 << 20, 10 * 1000000, 4, &healthy);
    sums(1 << 20, 100 * 1000000, 4, &now);
    const sl_tested_direction slow[] = {direction(1, 2, 0.001, 90)};
    assert_false(sl_carried_compare(healthy, now, 0, slow, 1, three, 4, &found));
    assert_false(
        sl_carried_compare(healthy, now, 0, slow, 1, nodes, 2, &found)); /* ranks that nobody knows */
    sl_call_profile_close(healthy);
    sl_call_profile_close(now);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_carries_less_than_it_did_is_slow),
        cmocka_unit_test(what_takes_longer_than_it_did_is_slow),
        cmocka_unit_test(three_nodes_prove_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
