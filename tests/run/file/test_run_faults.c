/* Faults of a run file: network cards, hosts and spells arrive, and what makes no sense is refused with file,
 * line and key. */
#include "check.h"

#include "base/memory.h"
#include "read_run.h"

#define WITH(parallel, hosts)                                                                                \
    "model: {layers: 8, width: 128, heads: 4, context: 64}\n"                                                \
    "data: {files: [a]}\n"                                                                                   \
    "parallel: " parallel "\n"                                                                               \
    "batch: {microbatches: 12}\n"                                                                            \
    "iterations: 60\n" hosts "faults:\n"
#define BASE WITH("{pipeline: 4, data: 2, tensor: 2}", "")
#define HOSTS WITH("{pipeline: 4}", "hosts: [\"a:2\", \"user@b.example.org:2\", \"a:1,c\"]\n")

static void a_slow_card_is_of_a_rank_or_of_a_host(void **state) {
    (void)state;
    sl_run run;
    assert_ok(read_run(BASE "  - {iterations: [20, 60], nic: 2, replica: 1, tensor: 0, latency_ms: 3}\n"
                            "  - {iterations: [20, 60], nic: 3, bandwidth_gbps: 1}\n"
                            "  - {iterations: [20, 60], host: b, bandwidth_gbps: 2}\n"
                            "  - {iterations: [20, 60], host: b, slowdown: 2}\n"
                            "  - {iterations: [20, 60], link: [0, 1], host: b, latency_ms: 2}\n",
                       &run));
    assert_int_equal(run.faults, 6); /* cards once, for both ways */
    const sl_fault *f = run.fault;
    assert_true(f[0].nic && f[0].rank == 2 && f[0].replica == 1 && f[0].tensor == 0 && f[0].from == -1);
    assert_true(f[0].latency_ms == 3 && f[0].bandwidth_gbps == 0 && f[0].slowdown == 1);
    assert_true(f[1].nic && f[1].rank == 3 && f[1].replica == -1 && f[1].tensor == -1);
    assert_true(f[2].nic && f[2].rank == -1 && f[2].bandwidth_gbps == 2);
    assert_string_equal(f[2].host, "b");
    assert_true(!f[3].nic && f[3].slowdown == 2);
    assert_true(!f[4].nic && f[4].from == 0 && !f[5].nic && f[5].from == 1);
    sl_run_free(&run);
}

static void a_host_of_the_list_is_told_by_its_number_too(void **state) {
    (void)state;
    sl_run run;
    assert_ok(read_run(HOSTS "  - {iterations: [20, 60], host: 1, slowdown: 2}\n"
                             "  - {iterations: [20, 60], host: 0, latency_ms: 2}\n"
                             "  - {iterations: [20, 60], host: 3, latency_ms: 2}\n"
                             "  - {iterations: [20, 60], host: b, latency_ms: 2}\n",
                       &run));
    static const char *const names[] = {"user@b.example.org", "a", "c", "b"};
    assert_int_equal(run.faults, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(run.fault[i].host, names[i]);
    sl_run_free(&run);
}

/* Who is at an address, or at localhost, only the machines know. */
static void a_name_that_the_list_may_mean_is_taken(void **state) {
    (void)state;
    static const char *const lists[] = {"", "hosts: [\"10.0.0.1:4\", b]\n", "hosts: [localhost, b]\n",
                                        "hosts: some/hostfile\n", "hosts: [a, b, node-7]\n"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        char text[1024];
        sl_run run;
        snprintf(text, sizeof text, "%s%s%s",
                 "model: {layers: 8, width: 128, heads: 4, context: 64}\ndata: {files: [a]}\n"
                 "parallel: {pipeline: 4}\nbatch: {microbatches: 12}\niterations: 60\n",
                 lists[i], "faults: [{iterations: [2, 4], host: node-7.example.org, latency_ms: 1}]\n");
        assert_ok(read_run(text, &run));
        assert_string_equal(run.fault[0].host, "node-7.example.org");
        sl_run_free(&run);
    }
}

static void spells_arrive_for_devices_links_and_cards(void **state) {
    (void)state;
    sl_run run;
    assert_ok(read_run(BASE "  - {iterations: [10, 30], every: 10, for: 4, rank: 1, slowdown: 1.5}\n"
                            "  - {iterations: [10, 30], every: 7, for: 1, nic: 1, latency_ms: 1}\n"
                            "  - {iterations: [10, 30], every: 2, for: 1, link: [0, 1], latency_ms: 1}\n"
                            "  - {iterations: [10, 30], rank: 2, slowdown: 2}\n",
                       &run));
    assert_int_equal(run.faults, 5);
    assert_true(run.fault[0].every == 10 && run.fault[0].lasts == 4 && run.fault[3].every == 2);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(sl_fault_is_active(&run.fault[0], i), (i >= 10 && i < 14) || (i >= 20 && i < 24));
        assert_int_equal(sl_fault_is_active(&run.fault[1], i), i == 10 || i == 17 || i == 24);
        assert_int_equal(sl_fault_is_active(&run.fault[4], i), i >= 10 && i < 30);
    }
    sl_run_free(&run);
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {BASE "  - {iterations: [2, 4], nic: 1}\n", "run.yaml:7: needs latency_ms or bandwidth_gbps with"},
        {BASE "  - {iterations: [2, 4], nic: 4, latency_ms: 1}\n", "run.yaml:7: names rank 4"},
        {BASE "  - {iterations: [2, 4], rank: 1, slowdown: 2}\n"
              "  - {iterations: [2, 4], nic: 1, replica: 2, latency_ms: 1}\n",
         "run.yaml:8: names replica 2, but the run has replicas 0 to 1"},
        {BASE "  - {iterations: [2, 4], nic: 1, tensor: 2, latency_ms: 1}\n", "names tensor rank 2"},
        {BASE "  - {iterations: [2, 4], nic: 1, link: [0, 1], latency_ms: 1}\n", "must name one of link"},
        {BASE "  - {iterations: [2, 4], nic: 1, rank: 1, latency_ms: 1}\n", "must name one of link"},
        {BASE "  - {iterations: [2, 4], nic: 1, host: a, latency_ms: 1}\n", "must name one of link"},
        {BASE "  - {iterations: [2, 4], nic: 1, latency_ms: 1, slowdown: 2}\n", "it is a card that is slow"},
        {BASE "  - {iterations: [2, 4], host: a, latency_ms: 1, slowdown: 2}\n", "it is a card that is slow"},
        {BASE "  - {iterations: [2, 4], link: [0, 1], latency_ms: 1, slowdown: 2}\n",
         "it is a link that is slow"},
        {BASE "  - {iterations: [2, 4], nic: 1, latency_ms: 1, one_way: true}\n",
         "run.yaml:7: 'one_way' belongs to link"},
        {BASE "  - {iterations: [2, 4], nic: 1, bandwidth_gbps: 1, per_queue: true}\n",
         "run.yaml:7: 'per_queue' belongs to link"},
        {BASE "  - {iterations: [2, 4], host: a, bandwidth_gbps: 1, replica: 1}\n",
         "run.yaml:7: 'replica' does not go with a host's"},
        {BASE "  - {iterations: [2, 4], host: a, bandwidth_gbps: 1, tensor: 1}\n",
         "run.yaml:7: 'tensor' does not go with a host's"},
        {BASE "  - {iterations: [2, 4], rank: 1, slowdown: 2, latency_ms: 1}\n",
         "run.yaml:7: 'latency_ms' is of links and network cards"},
        {BASE "  - {iterations: [2, 4], rank: 1, bandwidth_gbps: 1}\n",
         "run.yaml:7: 'bandwidth_gbps' is of links and network cards"},
        {WITH("{pipeline: 1, tensor: 2}", "") "  - {iterations: [2, 4], nic: 0, latency_ms: 1}\n",
         "run.yaml:7: names a network card, but with one pipeline rank and one replica nothing is sent"},
        {HOSTS "  - {iterations: [2, 4], host: d, latency_ms: 1}\n",
         "run.yaml:8: 'host' of 'd' is not one of the run's 4 hosts"},
        {HOSTS "  - {iterations: [2, 4], host: d, slowdown: 2}\n", "run.yaml:8: 'host' of 'd' is not one of"},
        {HOSTS "  - {iterations: [2, 4], host: 4, latency_ms: 1}\n",
         "run.yaml:8: 'host' must be from 0 to 3"},
        {HOSTS "  - {iterations: [2, 4], host: \"1\", latency_ms: 1}\n", "'host' of '1' is not one of"},
        {BASE "  - {iterations: [2, 4], host: 1, latency_ms: 1}\n",
         "run.yaml:7: 'host' of 1 is a number in the list of hosts, which the run file does not have"},
        {WITH("{pipeline: 4}",
              "hosts: [\"a:2\", \"a:2\"]\n") "  - {iterations: [2, 4], host: a, latency_ms: 1}\n",
         "run.yaml:8: 'host' names a network card, but the run has one host"},
        {BASE "  - {iterations: [2, 9], rank: 1, slowdown: 2, every: 3}\n", "needs both 'every' and 'for'"},
        {BASE "  - {iterations: [2, 9], rank: 1, slowdown: 2, for: 3}\n", "needs both 'every' and 'for'"},
        {BASE "  - {iterations: [2, 9], rank: 1, slowdown: 2, every: 3, for: 3}\n",
         "run.yaml:7: 'for' of 3 leaves no pause in 'every' of 3"},
        {BASE "  - {iterations: [2, 9], rank: 1, slowdown: 2, every: -1, for: 3}\n",
         "run.yaml:7: 'every' must be"},
        {BASE "  - {iteration: 4, kill: 1, every: 3, for: 1}\n", "run.yaml:7: 'every' does not go with kill"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_run run;
        assert_fails(read_run(cases[i].text, &run), SL_EINVAL, cases[i].says);
        sl_run_free(&run);
    }
}

static void every_failed_allocation_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    int done = 0;
    for (long n = 0; !done && n < 1000; n++) {
        sl_run run;
        sl_alloc_fail_at(n);
        sl_status status = read_run(HOSTS "  - {iterations: [2, 4], host: 1, latency_ms: 2}\n"
                                          "  - {iterations: [2, 4], link: [0, 1], host: b, latency_ms: 2}\n",
                                    &run);
        sl_alloc_fail_at(-1);
        done = status == SL_OK;
        if (!done)
            assert_int_equal(status, SL_ENOMEM);
        sl_run_free(&run);
    }
    assert_true(done);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_card_is_of_a_rank_or_of_a_host),
        cmocka_unit_test(a_host_of_the_list_is_told_by_its_number_too),
        cmocka_unit_test(a_name_that_the_list_may_mean_is_taken),
        cmocka_unit_test(spells_arrive_for_devices_links_and_cards),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
