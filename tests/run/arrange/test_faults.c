/* A fault belongs to the processes that sat where the run file says when the attempt began: what is between
 * two processes is asked by their homes, whatever goes between them now. */
#include "check.h"

#include "run/arrange/departure.h"
#include "run/arrange/faults.h"
#include "run/arrange/rank_state.h"

#include <string.h>

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

static sl_link_emulation between(sl_fault *faults, int count, int iteration, sl_run_position from,
                                 sl_run_position to) {
    sl_run run = {.fault = faults, .faults = count};
    return sl_faults_between(&run, NULL, iteration, from, to);
}

static int is_slow(sl_fault fault, sl_run_position from, sl_run_position to) {
    sl_link_emulation link = between(&fault, 1, 10, from, to);
    assert_true(link.latency == 0 || link.latency == 5 * SL_MS);
    return link.latency > 0;
}

/* Positions are {pipeline, replica, tensor}. */
static void a_link_of_a_pipeline_is_between_neighbours_of_each_replica_and_tensor_rank(void **state) {
    (void)state;
    sl_fault all = slow_link(1, 2), one = slow_link(1, 2);
    one.replica = 1;
    one.tensor = 0;
    for (int replica = 0; replica < 2; replica++)
        for (int tensor = 0; tensor < 2; tensor++) {
            sl_run_position a = {1, replica, tensor}, b = {2, replica, tensor};
            assert_true(is_slow(all, a, b));
            assert_false(is_slow(all, b, a)); /* directed */
            assert_int_equal(is_slow(one, a, b), replica == 1 && tensor == 0);
            assert_false(is_slow(all, a, (sl_run_position){2, 1 - replica, tensor}));
            assert_false(is_slow(all, a, (sl_run_position){2, replica, 1 - tensor}));
            assert_false(is_slow(all, a, (sl_run_position){3, replica, tensor}));
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
        sl_run_position a = {1, 2, tensor}, b = {1, 0, tensor};
        assert_true(is_slow(all, a, b));
        assert_false(is_slow(all, b, a));
        assert_int_equal(is_slow(one, a, b), tensor == 1);
        assert_false(is_slow(all, a, (sl_run_position){1, 1, tensor}));
        assert_false(is_slow(all, (sl_run_position){0, 2, tensor}, (sl_run_position){0, 0, tensor}));
        assert_false(is_slow(all, a, (sl_run_position){1, 0, 1 - tensor}));
    }
}

static void latencies_add_up_and_a_fault_ends(void **state) {
    (void)state;
    sl_fault faults[3] = {slow_link(0, 1), slow_link(0, 1), slow_link(0, 1)};
    faults[1].latency_ms = 2;
    faults[1].end = 15;
    faults[2].latency_ms = 0;
    faults[2].bandwidth_gbps = 8;
    const sl_run_position a = {0, 0, 0}, b = {1, 0, 0};
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

/* ---- network cards ---- */

enum { PIPELINE = 3, DATA = 2, TENSOR = 2, WORLD = PIPELINE * DATA * TENSOR, WORDS = 2 * (WORLD + 8) };

/* A run of 3 ranks, 2 replicas and 2 tensor ranks; pipeline rank r is on host r: a, b, c. */
typedef struct cluster {
    sl_run run;
    sl_trainer trainer;
    sl_rank_state state;
    sl_fault_effects effects;
    sl_process_host process_host[WORLD];
    _Atomic int64_t word[WORDS];
} cluster;

static void open_cluster(cluster *c, sl_fault *faults, int count) {
    memset(c, 0, sizeof *c);
    c->run.parallel.pipeline = PIPELINE;
    c->run.parallel.data = DATA;
    c->run.parallel.tensor = TENSOR;
    c->run.fault = faults;
    c->run.faults = count;
    for (int w = 0; w < WORLD; w++) {
        c->process_host[w].entry = -1;
        c->process_host[w].host[0] = (char)('a' + sl_run_position_of(&c->run, w).pipeline);
    }
    c->trainer.run = &c->run;
    c->trainer.state = &c->state;
    c->state.process_host = c->process_host;
    c->state.effects = &c->effects;
    c->effects.cards.free_at = c->word;
}

static sl_fault slow_card(int rank, double latency_ms, double gbps) {
    sl_fault f = slow_link(-1, -1);
    f.nic = 1;
    f.rank = rank;
    f.latency_ms = latency_ms;
    f.bandwidth_gbps = gbps;
    return f;
}

static sl_link_emulation emulated(const cluster *c, sl_run_position from, sl_run_position to) {
    return sl_faults_between(&c->run, &c->trainer, 10, from, to);
}

/* All pairs of processes that talk: neighbours of a pipeline, replicas of a rank. */
static int talk(sl_run_position a, sl_run_position b) {
    int rank = a.pipeline - b.pipeline;
    return a.tensor == b.tensor &&
           ((a.replica == b.replica && (rank == 1 || rank == -1)) || (rank == 0 && a.replica != b.replica));
}

static void a_slow_card_slows_all_links_of_its_process_both_ways_and_no_other(void **state) {
    (void)state;
    cluster c;
    sl_fault fault = slow_card(1, 5, 8);
    fault.replica = 1;
    fault.tensor = 0;
    open_cluster(&c, &fault, 1);
    const sl_run_position its = {1, 1, 0};
    const _Atomic int64_t *sends = NULL, *receives = NULL;
    int slow = 0;
    for (int x = 0; x < WORLD; x++)
        for (int y = 0; y < WORLD; y++) {
            sl_run_position a = sl_run_position_of(&c.run, x), b = sl_run_position_of(&c.run, y);
            int out = memcmp(&a, &its, sizeof a) == 0, in = memcmp(&b, &its, sizeof b) == 0;
            if (!talk(a, b))
                continue;
            sl_link_emulation link = emulated(&c, a, b);
            assert_int_equal(link.latency, out || in ? 5 * SL_MS : 0);
            assert_int_equal(link.wires, out || in);
            assert_true(link.bytes_per_second == 0); /* of the card, not of each link */
            if (!link.wires)
                continue;
            assert_true(link.wire[0].bytes_per_second == 1e9);
            const _Atomic int64_t **wire = out ? &sends : &receives;
            assert_true(!*wire || *wire == link.wire[0].free_at);
            *wire = link.wire[0].free_at;
            slow++;
        }
    assert_int_equal(slow, 2 * 3); /* two neighbours and the other replica */
    assert_true(sends != receives);
}

static void a_card_at_either_end_counts_and_each_process_has_its_own(void **state) {
    (void)state;
    cluster c;
    sl_fault faults[2] = {slow_card(1, 5, 8), slow_card(1, 2, 4)};
    open_cluster(&c, faults, 2);
    sl_link_emulation link = emulated(&c, (sl_run_position){1, 0, 0}, (sl_run_position){1, 1, 0});
    assert_int_equal(link.latency, 14 * SL_MS); /* twice 5 + 2 */
    assert_int_equal(link.wires, 2);
    assert_true(link.wire[0].bytes_per_second == 0.5e9 && link.wire[1].bytes_per_second == 0.5e9);
    assert_true(link.wire[0].free_at != link.wire[1].free_at);
    sl_link_emulation other = emulated(&c, (sl_run_position){1, 0, 1}, (sl_run_position){2, 0, 1});
    assert_int_equal(other.wires, 1);
    assert_true(other.wire[0].free_at != link.wire[0].free_at &&
                other.wire[0].free_at != link.wire[1].free_at);
}

static void a_slow_card_of_a_host_is_shared_by_all_on_it_and_not_passed_within_it(void **state) {
    (void)state;
    cluster c;
    char host[] = "b";
    sl_fault faults[2] = {slow_card(-1, 5, 8), slow_card(-1, 0, 16)};
    faults[0].host = faults[1].host = host;
    faults[1].first = 11; /* not yet */
    open_cluster(&c, faults, 2);
    assert_int_equal(emulated(&c, (sl_run_position){1, 0, 0}, (sl_run_position){1, 1, 0}).latency, 0);
    assert_int_equal(emulated(&c, (sl_run_position){1, 0, 0}, (sl_run_position){1, 1, 0}).wires, 0);
    sl_link_emulation one = emulated(&c, (sl_run_position){1, 0, 0}, (sl_run_position){2, 0, 0}),
                      two = emulated(&c, (sl_run_position){1, 1, 1}, (sl_run_position){0, 1, 1}),
                      back = emulated(&c, (sl_run_position){0, 1, 1}, (sl_run_position){1, 1, 1});
    assert_true(one.latency == 5 * SL_MS && two.latency == 5 * SL_MS && back.latency == 5 * SL_MS);
    assert_true(one.wires == 1 && one.wire[0].free_at == two.wire[0].free_at);
    assert_true(back.wires == 1 && back.wire[0].free_at != two.wire[0].free_at);
    faults[1].first = 10; /* the same card: the last bandwidth counts */
    one = emulated(&c, (sl_run_position){1, 0, 0}, (sl_run_position){2, 0, 0});
    assert_true(one.wires == 1 && one.wire[0].bytes_per_second == 2e9);
    assert_true(one.wire[0].free_at == two.wire[0].free_at && one.latency == 5 * SL_MS);
}

static void spells_come_again_while_the_window_lasts(void **state) {
    (void)state;
    sl_fault f = slow_link(0, 1);
    f.end = 24;
    f.every = 5;
    f.lasts = 2;
    static const int slow[] = {10, 11, 15, 16, 20, 21};
    for (int iteration = 0; iteration < 40; iteration++) {
        int expected = 0;
        for (size_t i = 0; i < sizeof slow / sizeof slow[0]; i++)
            expected |= slow[i] == iteration;
        assert_int_equal(
            between(&f, 1, iteration, (sl_run_position){0, 0, 0}, (sl_run_position){1, 0, 0}).latency,
            expected ? 5 * SL_MS : 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_of_a_pipeline_is_between_neighbours_of_each_replica_and_tensor_rank),
        cmocka_unit_test(a_link_between_replicas_is_between_the_same_rank_of_two),
        cmocka_unit_test(latencies_add_up_and_a_fault_ends),
        cmocka_unit_test(a_slow_card_slows_all_links_of_its_process_both_ways_and_no_other),
        cmocka_unit_test(a_card_at_either_end_counts_and_each_process_has_its_own),
        cmocka_unit_test(a_slow_card_of_a_host_is_shared_by_all_on_it_and_not_passed_within_it),
        cmocka_unit_test(spells_come_again_while_the_window_lasts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
