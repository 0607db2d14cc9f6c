/* A fault belongs to the processes that sat where the run file says when the attempt began: what is between
 * two processes is asked by their homes, whatever goes between them now. */
#include "check.h"

#include "run/arrange/faults.h"

static sl_fault slow_link(int from, int to) {
    return (sl_fault){.first = 10,
                      .end = 20,
                      .from = from,
                      .to = to,
                      .from_replica = -1,
                      .to_replica = -1,
                      .rank = -1,
                      .kill = -1,
                      .replica = -1,
                      .tensor = -1,
                      .latency_ms = 5};
}

static sl_link_emulation between(sl_fault *faults, int count, int iteration, sl_seat from, sl_seat to) {
    sl_run run = {.fault = faults, .faults = count};
    return sl_faults_between(&run, NULL, iteration, from, to);
}

static int is_slow(sl_fault fault, sl_seat from, sl_seat to) {
    sl_link_emulation link = between(&fault, 1, 10, from, to);
    assert_true(link.latency == 0 || link.latency == 5 * SL_MS);
    return link.latency > 0;
}

/* Seats are {pipeline, replica, tensor}. */
static void a_link_of_a_pipeline_is_between_neighbours_of_each_replica_and_tensor_rank(void **state) {
    (void)state;
    sl_fault all = slow_link(1, 2), one = slow_link(1, 2);
    one.replica = 1;
    one.tensor = 0;
    for (int replica = 0; replica < 2; replica++)
        for (int tensor = 0; tensor < 2; tensor++) {
            sl_seat a = {1, replica, tensor}, b = {2, replica, tensor};
            assert_true(is_slow(all, a, b));
            assert_false(is_slow(all, b, a)); /* directed */
            assert_int_equal(is_slow(one, a, b), replica == 1 && tensor == 0);
            assert_false(is_slow(all, a, (sl_seat){2, 1 - replica, tensor}));
            assert_false(is_slow(all, a, (sl_seat){2, replica, 1 - tensor}));
            assert_false(is_slow(all, a, (sl_seat){3, replica, tensor}));
        }
}

static void a_link_between_replicas_is_between_the_same_rank_of_two(void **state) {
    (void)state;
    sl_fault all = slow_link(1, 1), one;
    all.from_replica = 2;
    all.to_replica = 0;
    one = all;
    one.tensor = 1;
    for (int tensor = 0; tensor < 2; tensor++) {
        sl_seat a = {1, 2, tensor}, b = {1, 0, tensor};
        assert_true(is_slow(all, a, b));
        assert_false(is_slow(all, b, a));
        assert_int_equal(is_slow(one, a, b), tensor == 1);
        assert_false(is_slow(all, a, (sl_seat){1, 1, tensor}));
        assert_false(is_slow(all, (sl_seat){0, 2, tensor}, (sl_seat){0, 0, tensor}));
        assert_false(is_slow(all, a, (sl_seat){1, 0, 1 - tensor}));
    }
}

static void latencies_add_up_and_a_fault_ends(void **state) {
    (void)state;
    sl_fault faults[3] = {slow_link(0, 1), slow_link(0, 1), slow_link(0, 1)};
    faults[1].latency_ms = 2;
    faults[1].end = 15;
    faults[2].latency_ms = 0;
    faults[2].bandwidth_gbps = 8;
    const sl_seat a = {0, 0, 0}, b = {1, 0, 0};
    static const struct {
        int iteration;
        sl_time latency;
        double rate;
    } expected[] = {{9, 0, 0}, {10, 7 * SL_MS, 1e9}, {14, 7 * SL_MS, 1e9}, {15, 5 * SL_MS, 1e9}, {20, 0, 0}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        sl_link_emulation link = between(faults, 3, expected[i].iteration, a, b);
        assert_true(link.latency == expected[i].latency && link.bytes_per_second == expected[i].rate);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_of_a_pipeline_is_between_neighbours_of_each_replica_and_tensor_rank),
        cmocka_unit_test(a_link_between_replicas_is_between_the_same_rank_of_two),
        cmocka_unit_test(latencies_add_up_and_a_fault_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
