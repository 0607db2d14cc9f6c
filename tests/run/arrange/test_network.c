/* Who is measured with whom: every link of a pipeline and every pair of replicas once, and nobody twice at
 * the same time. Counts by hand: D replicas meet in D - 1 rounds, or D where D is odd. */
#include "check.h"

#include "run/arrange/network_profile.h"

#include <stdlib.h>

enum { MAX = 64 };

static sl_run a_run(int pipeline, int data, int tensor, int placement) {
    sl_run run = {0};
    run.parallel.pipeline = pipeline;
    run.parallel.data = data;
    run.parallel.tensor = tensor;
    run.parallel.placement = placement;
    run.parallel.stages = placement == SL_LINEAR ? pipeline : 2 * pipeline;
    run.parallel.parts = 1;
    run.batch.microbatches = data;
    run.batch.split = calloc((size_t)data, sizeof(int));
    for (int r = 0; r < data; r++)
        run.batch.split[r] = 1;
    return run;
}

static void check(int pipeline, int data, int tensor, int placement, int neighbours, int rounds) {
    sl_run run = a_run(pipeline, data, tensor, placement);
    const int most = sl_network_profile_max(&run), world = pipeline * data * tensor;
    sl_ping_pair *pairs = calloc((size_t)most + 1, sizeof *pairs);
    int *round = calloc((size_t)most + 1, sizeof *round), count, last = 0, twins = 0;
    char *met = calloc((size_t)world * (size_t)world, 1), *busy = calloc((size_t)world, MAX);
    assert_ok(sl_network_profile_pairs(&run, pairs, round, &count));
    assert_true(count <= most);
    for (int i = 0; i < count; i++) {
        const int a = pairs[i].a, b = pairs[i].b;
        sl_run_position x = sl_run_position_of(&run, a), y = sl_run_position_of(&run, b);
        assert_true(a >= 0 && b >= 0 && a < world && b < world && a != b);
        assert_int_equal(x.tensor, y.tensor);
        if (x.replica == y.replica)
            assert_true(sl_run_has_link(&run, x.pipeline, y.pipeline));
        else
            assert_int_equal(x.pipeline, y.pipeline);
        twins += x.replica != y.replica;
        assert_false(met[a * world + b] || met[b * world + a]); /* once */
        met[a * world + b] = 1;
        assert_true(round[i] >= last && round[i] < MAX);
        last = round[i];
        assert_false(busy[a * MAX + last] || busy[b * MAX + last]);
        busy[a * MAX + last] = busy[b * MAX + last] = 1;
    }
    assert_int_equal(twins, pipeline * tensor * data * (data - 1) / 2);
    assert_int_equal(count - twins, neighbours * data * tensor);
    assert_int_equal(count ? last + 1 : 0, rounds);
    free(run.batch.split);
    free(pairs);
    free(round);
    free(met);
    free(busy);
}

static void every_pair_meets_once_in_few_rounds(void **state) {
    (void)state;
    check(1, 1, 2, SL_LINEAR, 0, 0);
    check(2, 1, 1, SL_LINEAR, 1, 1);
    check(8, 1, 1, SL_LINEAR, 7, 2);
    check(4, 2, 2, SL_LINEAR, 3, 2 + 1);
    check(4, 3, 1, SL_LINEAR, 3, 2 + 3);
    check(1, 8, 1, SL_LINEAR, 0, 7);
    check(2, 7, 2, SL_LINEAR, 1, 1 + 7);
    check(3, 16, 1, SL_LINEAR, 2, 2 + 15);
    check(4, 2, 1, SL_LOOP, 4, 2 + 1); /* a ring */
    check(5, 1, 1, SL_LOOP, 5, 3);
    check(4, 2, 1, SL_WAVE, 3, 2 + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_pair_meets_once_in_few_rounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
