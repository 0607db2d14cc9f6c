/* Clusters and arrangements through the public interface. 2 replicas of 2 stages on 4 hosts; 1F1B. */
#include "base/memory.h"
#include "library/check_library.h"

static slackline_cluster *make(void) {
    slackline_cluster *cluster;
    works(slackline_cluster_make(1, 2, 2, 4, &cluster));
    for (int stage = 0; stage < 2; stage++)
        for (int kind = SLACKLINE_F; kind <= SLACKLINE_W; kind++)
            works(slackline_cluster_set_time(cluster, stage, (slackline_kind)kind, 10 * ms));
    return cluster;
}

/* 1F1B of 2 even stages and 4 microbatches: (4 + 1) (F + B) = 150 ms. One host at half the speed has 60 ms a
 * microbatch: in the last stage the first F and the last B of the other are beside its 240 ms, 270; in the
 * first stage it waits for B(0), which ends at 50 where it could begin at 40: 250. */
static void an_iteration_is_timed(void **state) {
    (void)state;
    int64_t time;
    slackline_cluster *cluster = make();
    assert_int_equal(slackline_cluster_hosts(cluster), 4);
    assert_string_equal(slackline_cluster_host(cluster, 3), "node3");
    assert_null(slackline_cluster_host(cluster, 4));
    assert_int_equal(slackline_cluster_position(cluster, 0, 1, 1), 3);
    assert_int_equal(slackline_cluster_position(cluster, 0, 2, 0), -1);
    works(slackline_topology_time(cluster, NULL, &time));
    assert_int_equal(time, 150 * ms);
    works(slackline_cluster_set_speed(cluster, 0, 0.5));
    works(slackline_topology_time(cluster, NULL, &time));
    assert_int_equal(time, 250 * ms);
    works(slackline_topology_time(cluster, (const int[]){1, 2, 3, 0}, &time));
    assert_int_equal(time, 270 * ms);
    slackline_cluster_free(cluster);
}

/* A congested link (10 ns a byte) between the two hosts of the first stage carries its gradients, 2 MB in a
 * ring of two: 2 x 1 MB, 20 ms more; other links 2 ms. Between stages nothing is carried here: one of them
 * moves. */
static void the_search_moves_traffic_off_a_congested_link(void **state) {
    (void)state;
    int64_t time;
    int host[4], stage[4];
    char *why;
    slackline_topology found;
    slackline_cluster *cluster = make();
    for (int i = 0; i < 2; i++)
        works(slackline_cluster_set_gradient(cluster, i, 2e6));
    for (int i = 0; i < 16; i++)
        if (i / 4 != i % 4)
            works(slackline_cluster_set_link(cluster, i / 4, i % 4, 0, i == 1 || i == 4 ? 10 : 1));
    works(slackline_topology_time(cluster, NULL, &time));
    assert_int_equal(time, 170 * ms);
    works(slackline_topology_search(cluster, 1, 1, host, &found, &why));
    assert_true(found.present_ns == time);
    assert_int_equal(found.time_ns, 152 * ms);
    assert_true(found.proven && found.bound_ns == 152 * ms);
    assert_true(found.moved >= 2 && found.weights_moved >= 2);
    for (int i = 0; i < 4; i++)
        stage[host[i]] = i / 2;
    assert_int_not_equal(stage[0], stage[1]);
    if (!strstr(why, "node0") && !strstr(why, "node1"))
        fail_msg("it says not why: %s", why);
    slackline_free(why);
    works(slackline_topology_time(cluster, host, &time));
    assert_int_equal(time, found.time_ns);
    works(slackline_cluster_set_present(cluster, host));
    works(slackline_topology_search(cluster, 1, 1, host, &found, NULL));
    assert_int_equal(found.moved, 0);
    slackline_cluster_free(cluster);
}

static void a_file_is_read(void **state) {
    (void)state;
    slackline_cluster *cluster;
    slackline_problem *profile;
    int64_t time;
    static const char bare[] = "parallel: {data: 2, pipeline: 2}\nbatch: {microbatches: 4}\n"
                               "hosts: [a, b, c, {name: d, speed: 0.5}]\n"
                               "links: {default: {bandwidth_gbps: 100}}\n"
                               "volumes: {activation_mb: 0, gradient_mb: 0}\n";
    static const char text[] = "parallel: {data: 2, pipeline: 2}\nbatch: {microbatches: 4}\n"
                               "times_ms: {F: 10, I: 10, W: 10}\nhosts: [a, b, c, {name: d, speed: 0.5}]\n"
                               "links: {default: {bandwidth_gbps: 100}}\n"
                               "volumes: {activation_mb: 0, gradient_mb: 0}\n";
    works(slackline_cluster_parse("text", text, NULL, &cluster));
    assert_string_equal(slackline_cluster_host(cluster, 3), "d");
    works(slackline_topology_time(cluster, NULL, &time));
    assert_int_equal(time, 270 * ms);
    slackline_cluster_free(cluster);
    /* op times of a run, on hosts a and c: half as long */
    works(slackline_problem_make(SLACKLINE_LINEAR, 2, 0, 4, &profile));
    for (int stage = 0; stage < 2; stage++)
        for (int kind = SLACKLINE_F; kind <= SLACKLINE_W; kind++)
            works(slackline_problem_set_time(profile, stage, (slackline_kind)kind, 5 * ms));
    refuses(slackline_cluster_parse("text", text, profile, &cluster), "profile");
    works(slackline_cluster_parse("text", bare, profile, &cluster));
    works(slackline_topology_time(cluster, NULL, &time));
    assert_int_equal(time, 135 * ms);
    slackline_cluster_free(cluster);
    slackline_problem_free(profile);
    refuses(slackline_cluster_parse("text", "parallel: {data: 2}\nhosts: [a]\n", NULL, &cluster), "text");
    assert_null(cluster);
    refuses(slackline_cluster_read("/nowhere", NULL, &cluster), "/nowhere");
}

static void wrong_requests_are_refused(void **state) {
    (void)state;
    int host[4];
    int64_t time;
    slackline_topology found;
    slackline_cluster *cluster;
    refuses(slackline_cluster_make(1, 0, 2, 4, &cluster), "data 0");
    assert_null(cluster);
    refuses(slackline_cluster_make(1, 5000, 1, 4, &cluster), "5000");
    refuses(slackline_cluster_make(1, 1, 1, 0, &cluster), "0 microbatches");
    cluster = make();
    refuses(slackline_cluster_set_speed(cluster, 4, 1), "no host 4");
    refuses(slackline_cluster_set_speed(cluster, 0, 0), "a speed");
    refuses(slackline_cluster_set_link(cluster, 1, 1, 0, 0), "to itself");
    refuses(slackline_cluster_set_link(cluster, 0, 1, -1, 0), "latency");
    refuses(slackline_cluster_set_time(cluster, 0, SLACKLINE_GATHER, 1), "F, I, W and B");
    refuses(slackline_cluster_set_time(cluster, 2, SLACKLINE_F, 1), "no stage 2");
    refuses(slackline_cluster_set_time(cluster, 0, SLACKLINE_F, -1), "time of an op");
    refuses(slackline_cluster_set_gradient(cluster, 0, -1), "gradients");
    refuses(slackline_cluster_set_activation(cluster, 1e16), "message");
    refuses(slackline_cluster_set_sums(cluster, 0, SLACKLINE_W, 1, 1), "in F and in I");
    refuses(slackline_cluster_set_schedule(cluster, "fastest"), "'fastest'");
    refuses(slackline_cluster_set_present(cluster, (const int[]){0, 1, 2, 2}), "once");
    refuses(slackline_topology_time(cluster, (const int[]){0, 1, 2, 4}, &time), "once");
    refuses(slackline_topology_search(cluster, 1, 0, host, &found, NULL), "effort");
    for (int kind = SLACKLINE_F; kind <= SLACKLINE_W; kind++)
        works(slackline_cluster_set_time(cluster, 0, (slackline_kind)kind, 1000000 * 1000000LL));
    works(slackline_cluster_set_speed(cluster, 0, 1e-3));
    refuses(slackline_topology_time(cluster, NULL, &time), "the cluster");
    refuses(slackline_topology_search(cluster, 1, 1, host, &found, NULL), "the cluster");
    slackline_cluster_free(cluster);
    slackline_cluster_free(NULL);
}

static slackline_status whole_session(void) {
    slackline_cluster *cluster;
    slackline_topology found;
    int host[4];
    char *why = NULL;
    slackline_status status = slackline_cluster_make(1, 2, 2, 4, &cluster);
    for (int stage = 0; stage < 2 && status == SLACKLINE_OK; stage++)
        status = slackline_cluster_set_time(cluster, stage, SLACKLINE_F, 10 * ms);
    if (status == SLACKLINE_OK)
        status = slackline_cluster_set_schedule(cluster, "gpipe");
    if (status == SLACKLINE_OK)
        status = slackline_cluster_set_gradient(cluster, 0, 2e6);
    if (status == SLACKLINE_OK)
        status = slackline_cluster_set_link(cluster, 0, 1, 0, 10);
    if (status == SLACKLINE_OK)
        status = slackline_cluster_set_present(cluster, (const int[]){0, 1, 3, 2});
    if (status == SLACKLINE_OK)
        status = slackline_topology_search(cluster, 1, 0.1, host, &found, &why);
    slackline_free(why);
    slackline_cluster_free(cluster);
    return status;
}

/* Leaks are the address sanitizer's to find. */
static void every_failed_allocation_is_a_status(void **state) {
    (void)state;
    long n = 0;
    for (slackline_status status = SLACKLINE_NO_MEMORY; status != SLACKLINE_OK; n++) {
        sl_alloc_fail_at(n);
        status = whole_session();
        sl_alloc_fail_at(-1);
        assert_true(status == SLACKLINE_OK || status == SLACKLINE_NO_MEMORY);
        assert_true(n < 100000);
    }
    assert_true(n > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_iteration_is_timed),
        cmocka_unit_test(the_search_moves_traffic_off_a_congested_link),
        cmocka_unit_test(a_file_is_read),
        cmocka_unit_test(wrong_requests_are_refused),
        cmocka_unit_test(every_failed_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
