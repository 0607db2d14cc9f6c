/* Devices of a cluster file, for choose and for topology. */
#include "check.h"

#include "adapt/topology/topology.h"
#include "base/memory.h"
#include "choose/model/devices.h"

static sl_status read_devices(const char *text, sl_devices *devices) {
    sl_document document;
    assert_ok(sl_document_parse("cluster.yaml", text, &document));
    sl_status status = sl_devices_read(&document, devices);
    sl_document_close(&document);
    return status;
}

static sl_status read_cluster(const char *text, sl_cluster *cluster) {
    sl_document document;
    assert_ok(sl_document_parse("cluster.yaml", text, &document));
    sl_status status = sl_cluster_read(&document, NULL, cluster);
    sl_document_close(&document);
    return status;
}

#define DEVICE                                                                                               \
    "device: {tflops: 1000, efficiency: 0.4, memory_gb_per_s: 3000, memory_gb: 80, overhead_us: 50, "            \
    "host_memory_gb: 100, host_gb_per_s: 25}\n"
#define HOSTS                                                                                                \
    "hosts:\n  - {name: \"node[0-1]\", devices: 4}\n  - {name: slow, devices: 2, speed: 0.5, memory_gb: "    \
    "40}\n"
#define LINKS_OF_128 "links: {default: {bandwidth_gbps: 400}, inside: {bandwidth_gbps: 3600}}\n"
#define LINKS                                                                                                \
    "links:\n  default: {latency_ms: 0.02, bandwidth_gbps: 100}\n  inside: {latency_ms: 0.005, "             \
    "bandwidth_gbps: 3200}\n  list:\n    - {between: [node0, slow], latency_ms: 5, bandwidth_gbps: 10, "     \
    "one_way: true}\n"

static void devices_have_the_speed_and_memory_of_their_host(void **state) {
    (void)state;
    sl_devices d;
    assert_ok(read_devices(HOSTS LINKS DEVICE, &d));
    assert_int_equal(d.count, 10);
    assert_int_equal(d.hosts, 3);
    assert_string_equal(d.name[1], "node1");
    assert_int_equal(d.device[7].host, 1);
    assert_int_equal(d.device[8].host, 2);
    assert_near(d.device[7].speed, 1, 0);
    assert_near(d.device[8].speed, 0.5, 0);
    assert_near(d.device[0].memory, 80e9, 0);
    assert_near(d.device[9].memory, 40e9, 0);
    assert_near(d.flops_per_s, 400e12, 1e3);
    assert_near(d.bytes_per_s, 3e12, 1e-3);
    assert_near(d.overhead_s, 50e-6, 1e-18);
    assert_near(d.host_memory, 100e9, 0);
    assert_near(d.host_pace, 0.04, 1e-15); /* ns per byte at 25e9 bytes per second */
    sl_devices_free(&d);
}

static void a_group_has_its_slowest_link(void **state) {
    (void)state;
    sl_devices d;
    double latency, pace;
    assert_ok(read_devices(HOSTS LINKS DEVICE, &d));
    sl_devices_group(&d, (const int[]){2}, 1, &latency, &pace);
    assert_near(latency, 0, 0);
    assert_near(pace, 0, 0);
    sl_devices_group(&d, (const int[]){0, 1, 3}, 3, &latency, &pace); /* one host */
    assert_near(latency, 5e3, 1e-9);
    assert_near(pace, 8 / 3200.0, 1e-15);
    sl_devices_group(&d, (const int[]){3, 4}, 2, &latency, &pace);
    assert_near(latency, 20e3, 1e-9);
    assert_near(pace, 0.08, 1e-15);
    sl_devices_group(&d, (const int[]){8, 5, 0}, 3, &latency, &pace); /* node0 to slow */
    assert_near(latency, 5e6, 1e-6);
    assert_near(pace, 0.8, 1e-15);
    sl_devices_free(&d);
}

static void keys_that_only_topology_needs_may_be_there(void **state) {
    (void)state;
    sl_devices d;
    assert_ok(
        read_devices("parallel: {data: 2}\nbatch: {microbatches: 4}\ntimes_ms: {F: 1, I: 1, W: 1}\n"
                     "volumes: {activation_mb: 1}\nhosts: [a, b]\nlinks: {default: {bandwidth_gbps: 1}}\n"
                     "device: {tflops: 1, memory_gb_per_s: 1}\n",
                     &d));
    assert_int_equal(d.count, 2);
    assert_near(d.device[1].memory, 0, 0);
    assert_near(d.flops_per_s, 0.5e12, 1e-3); /* the default efficiency */
    assert_near(d.host_memory + d.host_pace + d.overhead_s, 0, 0);
    sl_devices_free(&d);
}

static void a_large_cluster_stays_by_hosts(void **state) {
    (void)state;
    sl_devices d;
    assert_ok(read_devices("hosts: [{name: \"node[000-127]\", devices: 8}]\n" LINKS_OF_128 DEVICE, &d));
    assert_int_equal(d.count, 1024);
    assert_int_equal(d.hosts, 128);
    assert_string_equal(d.name[7], "node007");
    assert_int_equal(d.device[1023].host, 127);
    sl_devices_free(&d);
}

static void wrong_clusters_are_refused_with_line_and_key(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {HOSTS LINKS, "'device' is missing"},
        {LINKS DEVICE, "'hosts' is missing"},
        {HOSTS DEVICE, "'links' is missing"},
        {HOSTS LINKS "device: {memory_gb_per_s: 1}\n", "cluster.yaml:9: 'tflops' is missing 'device'"},
        {HOSTS LINKS "device: {tflops: 1}\n", "cluster.yaml:9: 'memory_gb_per_s' is missing 'device'"},
        {HOSTS LINKS "device: {tflops: 1, memory_gb_per_s: 1, efficiency: 2}\n",
         "cluster.yaml:9: 'efficiency' 1 2"},
        {HOSTS LINKS "device: {tflops: 1, memory_gb_per_s: 1, host_memory_gb: 2}\n",
         "cluster.yaml:9: 'device' 'host_gb_per_s'"},
        {HOSTS "links: {default: {bandwidth_gbps: 1}}\n" DEVICE, "cluster.yaml:4: 'links' 'inside'"},
        {"hosts: [{name: a, devices: 0}]\n" LINKS DEVICE, "cluster.yaml:1: 'devices' 0"},
        {"hosts: [{name: a, devices: 4}, a/3]\n" LINKS DEVICE, "cluster.yaml:1: 'hosts' 'a/3' twice"},
        {"hosts: [{name: a, device: 4}]\n" LINKS DEVICE, "cluster.yaml:1: 'device' 'devices'"},
        {"hosts: []\n" LINKS DEVICE, "cluster.yaml:1: 'hosts'"},
        {"hosts: [{name: \"n[0-99]\", devices: 1000}]\n" LINKS DEVICE, "4096 65536"},
        {HOSTS LINKS DEVICE "color: red\n", "cluster.yaml:10: 'color'"},
        {"pipeline: {ranks: 2}\n", "'pipeline' problem file cluster file"},
        {"layers: []\n", "'layers' model file cluster file"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sl_devices d;
        assert_fails(read_devices(wrong[i].text, &d), SL_EINVAL, wrong[i].says);
        sl_devices_free(&d);
    }
}

/* ---- topology reads the same file ---- */

#define SHAPE                                                                                                \
    "parallel: {tensor: 2, data: 1, pipeline: 5}\nbatch: {microbatches: 2}\n"                                \
    "times_ms: {F: 1, I: 1, W: 1}\nvolumes: {activation_mb: 1}\n"

static void topology_gives_every_device_a_position(void **state) {
    (void)state;
    sl_cluster c;
    assert_ok(read_cluster(SHAPE HOSTS LINKS DEVICE, &c));
    assert_int_equal(c.hosts, 10);
    assert_string_equal(c.name[0], "node0/0");
    assert_string_equal(c.name[7], "node1/3");
    assert_string_equal(c.name[8], "slow/0");
    assert_near(c.speed[9], 0.5, 0);
    assert_near(c.latency[0 * 10 + 3], 5e3, 1e-9); /* inside node0 */
    assert_near(c.pace[3 * 10 + 0], 8 / 3200.0, 1e-15);
    assert_near(c.latency[3 * 10 + 4], 20e3, 1e-9);
    assert_near(c.latency[1 * 10 + 9], 5e6, 1e-6);
    assert_near(c.latency[9 * 10 + 1], 20e3, 1e-9); /* one way */
    assert_near(c.latency[5 * 10 + 5] + c.pace[5 * 10 + 5], 0, 0);
    sl_cluster_free(&c);
}

static void present_names_devices_or_whole_hosts(void **state) {
    (void)state;
    sl_cluster c;
    static const int expected[] = {8, 9, 3, 2, 1, 0, 4, 5, 6, 7};
    assert_ok(read_cluster(
        SHAPE HOSTS LINKS "present: [slow, node0/3, node0/2, \"node0/1\", node0/0, \"node1/[0-3]\"]\n", &c));
    assert_memory_equal(c.present, expected, sizeof expected);
    sl_cluster_free(&c);
    assert_fails(read_cluster(SHAPE HOSTS LINKS "present: [slow, slow/1, node0, node1]\n", &c), SL_EINVAL,
                 "cluster.yaml:13: 'present' 'slow/1' twice");
    sl_cluster_free(&c);
    assert_fails(read_cluster(SHAPE HOSTS LINKS "present: [slow, node0, node1/4]\n", &c), SL_EINVAL,
                 "'node1/4'");
    sl_cluster_free(&c);
    assert_fails(read_cluster(SHAPE HOSTS LINKS "present: [slow, node0]\n", &c), SL_EINVAL, "10 6");
    sl_cluster_free(&c);
}

static void positions_are_as_many_as_devices(void **state) {
    (void)state;
    sl_cluster c;
    assert_fails(read_cluster(SHAPE "hosts: [{name: a, devices: 9}]\n" LINKS, &c), SL_EINVAL, "9 hosts 10");
    sl_cluster_free(&c);
    assert_fails(read_cluster(SHAPE "hosts: [{name: \"a[0-1]\", devices: 6}]\n" LINKS, &c), SL_EINVAL,
                 "10 positions");
    sl_cluster_free(&c);
    assert_fails(read_cluster(SHAPE HOSTS LINKS "device: {tflops: -1, memory_gb_per_s: 1}\n", &c), SL_EINVAL,
                 "cluster.yaml:13: 'tflops' -1");
    sl_cluster_free(&c);
}

static void no_memory_is_an_error(void **state) {
    (void)state;
    sl_document document;
    assert_ok(sl_document_parse("cluster.yaml", SHAPE HOSTS LINKS DEVICE, &document));
    for (int topology = 0; topology < 2; topology++) {
        sl_status status = SL_ENOMEM;
        for (long n = 0; status != SL_OK; n++) {
            sl_devices d = {0};
            sl_cluster c = {0};
            sl_alloc_fail_at(n);
            status = topology ? sl_cluster_read(&document, NULL, &c) : sl_devices_read(&document, &d);
            sl_alloc_fail_at(-1);
            assert_true(status == SL_OK || status == SL_ENOMEM);
            sl_devices_free(&d);
            sl_cluster_free(&c);
            assert_true(n < 1000);
        }
    }
    sl_document_close(&document);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_have_the_speed_and_memory_of_their_host),
        cmocka_unit_test(a_group_has_its_slowest_link),
        cmocka_unit_test(keys_that_only_topology_needs_may_be_there),
        cmocka_unit_test(a_large_cluster_stays_by_hosts),
        cmocka_unit_test(wrong_clusters_are_refused_with_line_and_key),
        cmocka_unit_test(topology_gives_every_device_a_position),
        cmocka_unit_test(present_names_devices_or_whole_hosts),
        cmocka_unit_test(positions_are_as_many_as_devices),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
