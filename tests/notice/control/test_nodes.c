/* Heartbeats: what a node says of its ranks is heard within the limits of a job, and not at all beyond them.
 */
#include "base/memory.h"
#include "check.h"
#include "notice/control/nodes.h"

/* A heartbeat of one rank, with one of its fields as given; *node is NULL where it is not heard. */
static sl_job_node *hear(sl_nodes *nodes, const char *field, json_t *value) {
    sl_job_node *node = NULL;
    int change;
    json_t *rank =
        json_pack("{s:i,s:i,s:i,s:i,s:s}", "rank", 3, "pid", 77, "size", 4, "period", 6, "cpus", "0-3");
    json_t *beat = json_pack("{s:s,s:s,s:s,s:I,s:i,s:i,s:i}", "node", "n", "host", "h", "clock", "c", "now",
                             (json_int_t)5, "calls", 9, "lost", 0, "validate", 1);
    json_object_set_new(json_object_get(beat, field) ? beat : rank, field, value);
    json_object_set_new(beat, "ranks", json_pack("[o]", rank));
    assert_ok(sl_nodes_hear(nodes, beat, 100, &node, &change));
    json_decref(beat);
    return node;
}

static void a_heartbeat_may_not_name_more_than_a_job_can_have(void **state) {
    (void)state;
    static const struct {
        const char *field;
        json_int_t value;
    } wrong[] = {{"rank", -1},         {"rank", 2147483647},  {"rank", 4294967299},
                 {"size", 2147483647}, {"size", 0},           {"size", -4},
                 {"pid", 0},           {"pid", -1},           {"pid", 4294967297},
                 {"period", -1},       {"period", 1LL << 40}, {"calls", -1},
                 {"lost", -1},         {"validate", 7}};
    sl_nodes nodes = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (hear(&nodes, wrong[i].field, json_integer(wrong[i].value)))
            fail_msg("%s %lld is heard", wrong[i].field, (long long)wrong[i].value);
    assert_int_equal(nodes.count, 0);
    assert_int_equal(sl_nodes_world(&nodes), 0);
    char name[400];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_null(hear(&nodes, "node", json_string(name)));
    assert_null(hear(&nodes, "clock", json_string(name)));
    assert_null(hear(&nodes, "rank", json_string("3")));
    const sl_job_node *node = hear(&nodes, "rank", json_integer(2));
    assert_non_null(node);
    assert_int_equal(node->ranks, 1);
    assert_int_equal(node->rank[0].rank, 2);
    assert_int_equal(sl_nodes_world(&nodes), 4);
    sl_nodes_close(&nodes);
}

static void hear_node(sl_nodes *nodes, int number, int first_rank, const char *clock, sl_time now) {
    char name[16];
    sl_job_node *node;
    int change;
    snprintf(name, sizeof name, "n%d", number);
    json_t *beat = json_pack("{s:s,s:s,s:i,s:i,s:i,s:[{s:i,s:i,s:i,s:i},{s:i,s:i,s:i,s:i}]}", "node", name,
                             "clock", clock, "calls", 9, "lost", 0, "validate", 1, "ranks", "rank",
                             first_rank, "pid", 1000 + first_rank, "size", 2000, "period", 6, "rank",
                             first_rank + 1, "pid", 1001 + first_rank, "size", 2000, "period", 6);
    assert_ok(sl_nodes_hear(nodes, beat, now, &node, &change));
    assert_non_null(node);
    json_decref(beat);
}

/* A thousand nodes of two ranks, node n with ranks 2n and 2n + 1. */
static void a_rank_is_found_on_the_first_living_node_that_has_it(void **state) {
    (void)state;
    sl_nodes nodes = {.clock = "ours"};
    int pid = 0;
    assert_null(sl_nodes_find(&nodes, "n5"));
    assert_null(sl_nodes_of_rank(&nodes, 5, &pid));
    for (int n = 0; n < 1000; n++)
        hear_node(&nodes, n, 2 * n, "ours", SL_SECOND);
    assert_true(sl_nodes_whole(&nodes));
    for (int rank = 0; rank < 2000; rank++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", rank / 2);
        assert_ptr_equal(sl_nodes_of_rank(&nodes, rank, &pid), sl_nodes_find(&nodes, name));
        assert_string_equal(sl_nodes_of_rank(&nodes, rank, NULL)->name, name);
        assert_int_equal(pid, 1000 + rank);
    }
    assert_null(sl_nodes_find(&nodes, "n1000"));
    assert_null(sl_nodes_of_rank(&nodes, 2000, NULL));
    assert_null(sl_nodes_of_rank(&nodes, -1, NULL));
    hear_node(&nodes, 1000, 8, "ours", 3 * SL_SECOND); /* ranks 8 and 9 are on two nodes */
    assert_false(sl_nodes_whole(&nodes));
    assert_string_equal(sl_nodes_of_rank(&nodes, 8, NULL)->name, "n4");
    for (int n = 0; n < 1000; n++)
        if (n != 4)
            hear_node(&nodes, n, 2 * n, "ours", 4 * SL_SECOND);
    assert_string_equal(sl_nodes_expired(&nodes, SL_SECOND + SL_NODE_LASTS + 1)->name, "n4");
    assert_string_equal(sl_nodes_of_rank(&nodes, 9, NULL)->name, "n1000");
    assert_true(sl_nodes_whole(&nodes));
    sl_nodes_close(&nodes);
}

/* An order goes to all nodes, so its size must not grow with those that need no time of their own. */
static void only_nodes_with_another_clock_get_a_time_of_their_own(void **state) {
    (void)state;
    sl_nodes nodes = {.clock = "ours"};
    for (int n = 0; n < 10; n++)
        hear_node(&nodes, n, 2 * n, n == 7 ? "theirs" : "ours", SL_SECOND);
    sl_nodes_find(&nodes, "n7")->offset = (sl_offset){.offset = 500, .trips = 1};
    json_t *times = sl_nodes_times(&nodes, 1000);
    assert_int_equal(json_object_size(times), 2);
    assert_int_equal(json_integer_value(json_object_get(times, "ours")), 1000);
    assert_int_equal(json_integer_value(json_object_get(times, "n7")), 1500);
    json_decref(times);
    sl_nodes_close(&nodes);
}

/* At each allocation: nothing is found then that is not there, and the next heartbeat is heard. */
static void a_heartbeat_without_memory_may_come_again(void **state) {
    (void)state;
    json_t *beat = json_pack("{s:s,s:s,s:s,s:I,s:i,s:i,s:i,s:[{s:i,s:i,s:i,s:i,s:s}]}", "node", "n", "host",
                             "h", "clock", "c", "now", (json_int_t)5, "calls", 9, "lost", 0, "validate", 1,
                             "ranks", "rank", 3, "pid", 77, "size", 4, "period", 6, "cpus", "0-3");
    sl_status status = SL_ENOMEM;
    int failed = 0;
    for (long n = 0; status != SL_OK; n++) {
        sl_nodes nodes = {0};
        sl_job_node *node;
        int change;
        sl_alloc_fail_at(n);
        status = sl_nodes_hear(&nodes, beat, 100, &node, &change);
        sl_alloc_fail_at(-1);
        assert_true(status == SL_OK || status == SL_ENOMEM);
        failed += status != SL_OK;
        assert_null(sl_nodes_find(&nodes, "another"));
        assert_null(sl_nodes_of_rank(&nodes, 4, NULL));
        assert_ok(sl_nodes_hear(&nodes, beat, 100, &node, &change));
        assert_non_null(node);
        assert_ptr_equal(sl_nodes_find(&nodes, "n"), node);
        assert_ptr_equal(sl_nodes_of_rank(&nodes, 3, NULL), node);
        sl_nodes_close(&nodes);
    }
    assert_true(failed >= 3);
    json_decref(beat);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_heartbeat_without_memory_may_come_again),
        cmocka_unit_test(a_heartbeat_may_not_name_more_than_a_job_can_have),
        cmocka_unit_test(a_rank_is_found_on_the_first_living_node_that_has_it),
        cmocka_unit_test(only_nodes_with_another_clock_get_a_time_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
